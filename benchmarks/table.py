"""Write the results as a table.

python benchmarks/table.py              # print the table of results.json
python benchmarks/table.py --write docs/background/comparison.md   # put it between the markers
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from figures import Figure, ratio_text, value_text

sys.path.append(str(Path(__file__).parents[1] / "docs"))
from markers import between

RESULTS = Path(__file__).with_name("results.json")
HEAD = ("benchmark", "what", "ours", "peer", "limit", "to peer", "to limit", "goal", "met")
MET = {True: "yes", False: "**no**", None: "?"}


def row(benchmark: str, figure: Figure) -> tuple[str, ...]:
    """Write one figure as the cells of a row."""
    peer = value_text(figure.median("peer"), figure.unit)
    return (
        f"`{benchmark}`",
        figure.name,
        value_text(figure.median("ours"), figure.unit),
        f"{peer} ({figure.peer})" if peer else "",
        value_text(figure.median("limit"), figure.unit),
        ratio_text(figure.ratio("peer")),
        ratio_text(figure.ratio("limit")),
        "; ".join(goal.text(figure) for goal in figure.goals),
        "; ".join(MET[goal.met(figure)] for goal in figure.goals),
    )


def table(told: Iterable[Mapping[str, Any]], *, goals: bool = True) -> str:
    """Write what benchmarks told as one table: Markdown that is aligned for a terminal, too."""
    rows = [HEAD]
    for each in told:
        rows += [row(each["benchmark"], Figure.from_dict(f)) for f in each["figures"]]
    if not goals:
        rows = [cells[:-2] for cells in rows]
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) + " |" for r in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def tables(results: Iterable[Mapping[str, Any]], *, goals: bool = True) -> str:
    """Write a table for each machine on which benchmarks were run, below what it is."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for told in results:
        groups.setdefault(json.dumps(told["machine"], sort_keys=True), []).append(told)
    return "\n\n".join(
        f"{machine_line(told[-1])}\n\n{table(told, goals=goals)}" for told in groups.values()
    )


def machine_line(told: Mapping[str, Any]) -> str:
    """Say in one line on what, and with what, a result was measured."""
    machine, versions = told["machine"], told["versions"]
    return (
        f"Linux {machine['kernel']}, {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gb']} GB; Python {versions['python']}, torch {versions['torch']}, "
        f"procession {versions['procession']}."
    )


def main(arguments: list[str]) -> None:
    """Print the table, or write it into a page."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))["benchmarks"].values()
    if arguments[:1] == ["--write"]:
        page = Path(arguments[1])
        text = between(page.read_text(encoding="utf-8"), "results", tables(results, goals=False))
        page.write_text(text, encoding="utf-8")
    else:
        print(tables(results))


if __name__ == "__main__":
    main(sys.argv[1:])
