"""A run as it is now, in lines, and tables of runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from procession.output.text import shown
from procession.values.figures import number

GONE = ("EXITED", "LOST")
MOST_LINES = 50  # about ranks; where there are more, those that are alike share one


def describe(look: Mapping[str, Any], columns: int) -> str:
    """Describe what `Group.look` gave, in lines for a terminal of so many columns."""
    from procession.view.draw import Drawing
    from procession.view.seen import Sight

    lines = Drawing(colour=False).lines(Sight(lambda: look).see(), columns, MOST_LINES)
    lines += [
        f"  command: {shown(shlex.join(look['words']))}",
        f"  launcher: pid {look['launcher']} on {look['host']}",
    ]
    if look["slurm_job"]:
        lines[-1] += f", in job {look['slurm_job']} of Slurm"
    if look.get("hosts"):
        lines.append(f"  machines, by node rank: {shown(', '.join(look['hosts']))}")
        lines.append(f"  links to their node processes: {', '.join(look['links'])}")
    elif look["nodes"] > 1:
        lines.append(f"  node {look['node']} of {look['nodes']}")
    if look["run_dir"]:
        lines.append(f"  run directory: {shown(look['run_dir'])}")
    return "\n".join(lines)


def alive(look: Mapping[str, Any]) -> int:
    """Count the ranks that have a process."""
    return sum(r["pid"] is not None and r["state"] not in GONE for r in look["ranks"])


def step(look: Mapping[str, Any]) -> str:
    """Give the progress of the rank that is furthest behind, "" if no rank reports any."""
    known = [r for r in look["ranks"] if r["step"] is not None]
    if not known:
        return ""
    last = min(known, key=lambda r: r["step"])
    total = f"/{number(last['total'])}" if last["total"] is not None else ""
    return number(last["step"]) + total


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows below each other, columns aligned; the first one is the heading."""
    rows = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(w.ljust(n) for w, n in zip(row, widths, strict=True)) for row in rows]
    return "".join(f"{line.rstrip()}\n" for line in lines)
