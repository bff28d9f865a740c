"""Phrases about a group and its ranks, which the view and the status line share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from procession.output.escape import shown
from procession.values import figures
from procession.view.seen import Seen, Whole

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def plain(text: str) -> str:
    """Give a text without colours, in which control characters are written visibly."""
    return shown(COLOUR.sub("", text).replace("\t", " "))


def state_of(r: Seen) -> str:
    """Name the state of a rank; of one that is gone, how it ended."""
    return r.ended.lower().replace("_", " ") if r.gone and r.ended else r.state


def counted(whole: Whole) -> str:
    """Say how many ranks are in which state, the failed ones first: `1 failed, 63 RUNNING`."""
    states: dict[str, int] = {}
    for r in sorted(whole.ranks, key=lambda r: not r.failed):
        name = state_of(r)
        states[name] = states.get(name, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in states.items()) or whole.state


def used(whole: Whole) -> list[str]:
    """Say what all ranks use together: `12.3 GB`, `790 % CPU`."""
    memory = [r.usage.memory for r in whole.ranks if r.usage.memory is not None]
    cpu = [r.usage.cpu for r in whole.ranks if r.usage.cpu is not None]
    gpu = [r.usage.gpu for r in whole.ranks if r.usage.gpu is not None]
    said = [figures.sizes([sum(memory)])] if memory else []
    said += [f"{figures.sizes([sum(gpu)])} GPU"] if gpu else []
    return [*said, *([f"{sum(cpu):.0f} % CPU"] if cpu else [])]


def step_of(ranks: Sequence[Seen]) -> str:
    """Say where ranks are: `512-515/1000`."""
    steps = [r.step for r in ranks if r.step is not None]
    if not steps:
        return ""
    totals = [r.total for r in ranks if r.total is not None]
    return figures.between(steps) + (f"/{figures.between(totals)}" if totals else "")
