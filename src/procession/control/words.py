"""A run described in words, and tables of runs. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from procession.output.escape import shown
from procession.values.figures import duration, format_ranks

GONE = ("EXITED", "LOST")


def describe(look: Mapping[str, Any], now: float) -> str:
    """Describe in words what `Group.look` gave. now: seconds since 1970."""
    attempt = f", attempt {look['attempt']} of {look['restarts']}" if look["restarts"] else ""
    lines = [
        f"{look['name']}: {look['state'].lower()} for {duration(max(0, now - look['began']))}"
        f", {alive(look)} of {look['nproc']} ranks alive{attempt}",
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
    alike: dict[str, list[int]] = {}
    for rank in look["ranks"]:
        alike.setdefault(_rank(rank, now), []).append(rank["rank"])
    lines += [f"  {format_ranks(numbers)}: {said}" for said, numbers in alike.items()]
    return "\n".join(lines)


def _rank(rank: Mapping[str, Any], now: float) -> str:
    said = [rank["exit"] or rank["state"].lower()]
    if rank["beats"] and not rank["exit"]:
        if rank["step"] is not None:
            total = f" of {_value(rank['total'])}" if rank["total"] is not None else ""
            said.append(f"at step {_value(rank['step'])}{total}")
        said += [f"{shown(name)} {_value(value)}" for name, value in rank["fields"].items()]
        said.append(f"last heard {duration(max(0, now - rank['beat_at']))} ago")
    return ", ".join(said)


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(str(value))


def alive(look: Mapping[str, Any]) -> int:
    """Count the ranks that have a process."""
    return sum(r["pid"] is not None and r["state"] not in GONE for r in look["ranks"])


def step(look: Mapping[str, Any]) -> str:
    """Give the progress of the rank that is furthest behind, "" if no rank reports any."""
    known = [r for r in look["ranks"] if r["step"] is not None]
    if not known:
        return ""
    last = min(known, key=lambda r: r["step"])
    total = f"/{_value(last['total'])}" if last["total"] is not None else ""
    return f"{_value(last['step'])}{total}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows below each other, columns aligned; the first one is the heading."""
    rows = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(w.ljust(n) for w, n in zip(row, widths, strict=True)) for row in rows]
    return "".join(f"{line.rstrip()}\n" for line in lines)
