"""Frameworks that launch ranks: each line by itself and under `procession adopt`, in turn.

make bench-frameworks                  # about 15 minutes; puts the tables into docs/frameworks/
.venv-frameworks/bin/python benchmarks/frameworks.py --repeat 1 accelerate     # prints, some lines

The programs and lines are those of tests/frameworks, two ranks on CPUs. Each is run well, `repeat`
times, and then once with rank 1 raising `ValueError: boom`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from figures import ratio_text
from measure import alternate
from run import machine
from table import put

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "frameworks"
sys.path[:0] = [str(ROOT / "tests" / "frameworks"), str(ROOT / "tests")]

BOOM = "ValueError: boom"
PAGE_OF = {
    "accelerate": "accelerate",
    "transformers": "transformers",
    "lightning": "lightning",
    "torchx": "torchx",
    "torch": "pytorch",
}  # by package
BUSY = 0.5  # load from which on the machine is not quiet
SECTION = """\
## By itself and adopted

Two ranks on CPUs, by `make bench-frameworks`; where there is a second table, rank 1 raised."""
HEAD = ("line", "seconds", "adopted", "", "CPU seconds", "adopted", "")
CAUSES = ("line", "a rank fails: exit code", "seconds", "its report names")


@dataclass(frozen=True)
class Side:
    """One line in one way: its runs that went well, and the one in which rank 1 raised."""

    well: Sequence[Any]
    failed: Any | None

    def median(self, field: str) -> float:
        """Give the median of a field of the runs that went well."""
        return statistics.median(getattr(done, field) for done in self.well)


@dataclass(frozen=True)
class Measured:
    """A line in both ways."""

    name: str
    page: str
    itself: Side
    adopted: Side


def measure(name: str, repeat: int, directory: Path) -> Measured | None:
    """Measure a line; None where its package is missing. Raises RuntimeError for a bad run."""
    from frameworkcases import CASES, missing, prepare, run

    case = CASES[name]
    if why := missing(case.needs):
        print(f"{name}: {why}", file=sys.stderr)
        return None
    prepare(directory)

    def well(adopted: bool) -> Any:
        done = run(case, directory, adopted=adopted)
        if done.code or sorted(done.ranks()) != [0, 1]:
            raise RuntimeError(f"{name}: exit code {done.code}\n{done.output[-2000:]}")
        return done

    runs = alternate({"itself": lambda: well(False), "adopted": lambda: well(True)}, repeat)
    failed: dict[str, Any] = {}
    if case.fails is not None:
        failed = {
            "itself": run(case, directory, adopted=False, BOOM="1"),
            "adopted": run(case, directory, adopted=True, BOOM="1"),
        }
    sides = [Side(runs[each], failed.get(each)) for each in ("itself", "adopted")]
    return Measured(name, PAGE_OF[case.needs], *sides)


def named_in(output: str) -> str:
    """Say what the launcher's own report, or the exception that it raised, names as the cause."""
    report = output.rpartition("Root Cause")[2] if "Root Cause" in output else output
    if BOOM in report:
        return f"`{BOOM}`, with its traceback"
    return "rank and exit code" if "Root Cause" in output else "nothing"


def rows_of(measured: Iterable[Measured]) -> list[tuple[str, ...]]:
    """Give the rows of the table of seconds."""
    rows = [HEAD]
    for each in measured:
        cells = [f"`{each.name}`" if "launch" in each.name else each.name]
        for field in ("wall", "cpu"):
            itself, adopted = each.itself.median(field), each.adopted.median(field)
            cells += [f"{itself:.1f}", f"{adopted:.1f}", ratio_text(adopted / itself)]
        rows.append(tuple(cells))
    return rows


def causes_of(measured: Iterable[Measured]) -> list[tuple[str, ...]]:
    """Give the rows of the table of causes."""
    rows = [CAUSES]
    for each in measured:
        for how, side in (("by itself", each.itself), ("adopted", each.adopted)):
            if (done := side.failed) is not None:
                seconds = f"{done.wall:.1f}"
                rows.append((f"{each.name}, {how}", f"{done.code}", seconds, named_in(done.output)))
    return rows


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def machine_of(load: float, repeat: int) -> str:
    """Say in two sentences where, and in what state, the figures were measured."""
    here = machine()
    packages = ("torch", "accelerate", "transformers", "lightning", "torchx")
    versions = ", ".join(f"{each} {metadata.version(each)}" for each in packages if _there(each))
    state = "nothing else ran"
    if load > BUSY:
        state = "other programs ran, so that only the two figures of a line can be compared"
    runs = "one run of each" if repeat == 1 else f"medians of {repeat} runs"
    return (
        f"{here['cores']} cores ({here['processor']}), {versions}; {runs}, in turn. "
        f"Load before the first: {load:.1f} ({state})."
    )


def _there(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def text_of(measured: Sequence[Measured], about: str) -> str:
    """Write what a page has of these lines."""
    parts = [table_of(rows_of(measured))]
    causes = causes_of(measured)
    if len(causes) > 1:
        parts.append(table_of(causes))
    return "\n\n".join([*parts, about])


def write(measured: Sequence[Measured], about: str) -> None:
    """Put the tables into the pages, between their markers; the first page has all of them."""
    pages = {"index": text_of(measured, about)}
    for name in {each.page for each in measured}:
        own = [each for each in measured if each.page == name]
        pages[name] = f"{SECTION}\n\n{text_of(own, about)}"
    for name, text in pages.items():
        page = PAGES / f"{name}.md"
        whole = put(page.read_text(encoding="utf-8"), "measured", text)
        page.write_text(whole, encoding="utf-8")


def main() -> int:
    """Run the command and give its exit code."""
    from frameworkcases import CASES

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="WORD", help="lines that have this word")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each way (default: 3)")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    given = parser.parse_args()
    chosen = [n for n in CASES if not given.names or any(w in n for w in given.names)]
    load = os.getloadavg()[0]
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="benchmark_") as scratch:
        os.environ["TMPDIR"] = scratch
        for name in chosen:
            print(f"{name} ...", file=sys.stderr, flush=True)
            found = measure(name, given.repeat, Path(tempfile.mkdtemp(dir=scratch)))
            if found is None:
                continue
            measured.append(found)
            about = machine_of(load, given.repeat)
            if given.write:  # at once: it takes long
                write(measured, about)
            print(text_of(measured[-1:], about), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
