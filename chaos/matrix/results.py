"""The results of cells: a file for each, and docs/matrix.md, which is made of them."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chaos.matrix.cell import BROKEN, FALLS_BACK, NOT_HERE, REFUSES, WORKS, Cell
from chaos.matrix.cells import CELLS, SUBJECTS
from chaos.matrix.runner import Ran

RESULTS = Path(__file__).with_name("results")
PAGE = Path(__file__).parent.parent.parent / "docs" / "matrix.md"
WORDS = (WORKS, FALLS_BACK, REFUSES, BROKEN, NOT_HERE)
HEAD = "| where | | what it does there | `procession doctor` says the same |\n|---|---|---|---|\n"
INTRODUCTION = """# Where procession runs

This page is generated: `make chaos-matrix` makes each environment for itself, launches in it, and
asks `procession doctor` there. `CELL=docker make chaos-matrix` makes one.

In each environment it launches functions (start methods forkserver, spawn and fork), a program and
a script with two ranks each; a rank that fails has to be named as the cause; and a launcher is
killed, of which nothing may be left, also no daemon that ignores SIGTERM. An environment

- **works** if all of that does;
- **works with a fallback** if all of that does, and procession does something else instead of what
  is missing there;
- **refuses** if nothing is started, and one line says what is missing;
- is **broken** otherwise.

Beside these, `--contain`, a memory cgroup for each rank, `--detach`, and `procession ps` are tried.
`procession doctor` has to say the same as all these launches, to name what the environment lacks,
and nothing else. What falls back everywhere on the machine below is in its first row only.

"""


def keep(name: str, ran: Ran) -> None:
    """Keep the result of a cell, instead of the one that it had."""
    found = ran.verdict
    told = {
        "cell": name,
        "is": found.word,
        "said": list(found.said),
        "beside": list(found.beside),
        "problems": list(found.problems),
        "checks": list(ran.checks),
        "python": ran.python,
        "machine": f"Linux {platform.release()}, {platform.machine()}, {os.cpu_count()} cores",
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _results() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in CELLS:
        path = RESULTS / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text(encoding="utf-8"))
    return found


def page() -> str:
    """Give the page, as Markdown."""
    results = _results()
    count = Counter(result["is"] for result in results.values())
    numbers = ", ".join(f"{count[word]} {word}" for word in WORDS if count[word])
    machines = sorted({f"{r['day']}, {r['machine']}" for r in results.values()})
    text = (
        f"{INTRODUCTION}{len(results)} environments: {numbers}. Measured: {'; '.join(machines)}.\n"
    )
    for subject, cells in SUBJECTS.items():
        text += f"\n## {subject}\n\n{HEAD}"
        for name, cell in cells.items():
            text += _row(name, cell, results.get(name))
    return text


def _row(name: str, cell: Cell, result: dict[str, Any] | None) -> str:
    if result is None:
        return f"| {cell.what} (`{name}`) | not run | | |\n"
    does = [*result["said"], *(f"not {each}" for each in result["beside"])]
    does += [cell.note] * bool(cell.note) + result["problems"]
    other = result["python"] and "ython" in cell.what
    python = f" ({result['python']})" if other else ""
    same = "" if result["is"] == NOT_HERE else "no" if result["problems"] else "yes"
    word = f"**{result['is']}**" if result["is"] in (BROKEN, REFUSES) else result["is"]
    text = "<br>".join(_in_cell(each) for each in does)
    return f"| {cell.what}{python} (`{name}`) | {word} | {text} | {same} |\n"


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
