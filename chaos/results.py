"""The results of rows: kept in results.json, and written as a table into docs/reliability.md."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from chaos.row import SLOW
from chaos.rows import NAMES, row_of
from chaos.runner import Told
from docs.markers import between

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
HEAD = "| fault | trials | must hold | held | measured |\n|---|---|---|---|---|\n"


def keep(name: str, told: Told, day: str) -> None:
    """Keep the results of a row, instead of those that it had."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[name] = {
        "trials": told.trials,
        "failed": len(told.failed),
        "problems": told.problems,
        "figures": {
            what: {"median": _median(all_), "most": max(all_)}
            for what, all_ in sorted(told.figures.items())
        },
        "machine": f"{platform.release()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}" + (f", times allowed × {SLOW:g}" if SLOW != 1 else ""),
        "day": day,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def _median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def line_of(name: str, told: Told) -> str:
    """Say in a line how a row went."""
    figures = "; ".join(f"{w}: at most {max(all_):.3f} s" for w, all_ in told.figures.items())
    counts = ", ".join(f"{what}: {number}" for what, number in sorted(told.counts.items()))
    good = told.trials - len(told.failed)
    head = f"{name}: {good} of {told.trials} held, {told.seconds:.0f} s"
    return "; ".join(filter(None, (head, figures, counts)))


def table(results: dict[str, Any]) -> str:
    """Give the table of all results that there are, as Markdown."""
    rows, machines = "", dict[str, list[str]]()
    for name in NAMES:
        row, result = row_of(name), results.get(name)
        if result is None:
            rows += f"| {row.fault} (`{name}`) | | {row.holds} | not run | |\n"
            continue
        machines.setdefault(f"{result['day']}, Linux {result['machine']}", []).append(name)
        measured = [
            f"{what}: {figure['median']:.2f} s, at most {figure['most']:.2f} s"
            for what, figure in result["figures"].items()
        ]
        held = result["trials"] - result["failed"]
        text = "all" if held == result["trials"] and not result["problems"] else f"**{held}**"
        rows += f"| {row.fault} (`{name}`) | {result['trials']:,} | {row.holds} | {text} "
        rows += f"| {'; '.join(measured)} |\n"
    where = [
        f"{machine}: {', '.join(f'`{name}`' for name in names)}"
        for machine, names in machines.items()
    ]
    return f"Measured by `make chaos`: {'; '.join(where)}.\n\n{HEAD}{rows}"


def write() -> None:
    """Write the tables between their markers."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    PAGE.write_text(between(PAGE.read_text(), "chaos", table(results).rstrip()))
