"""What is said of a group and its ranks, in words that the view and the line of status share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from procession.view import words
from procession.view.seen import Seen, Whole

# Also what turns the direction of writing round.
CONTROL = re.compile(r"\x1b\[[0-9;:]*m|[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Give a text without anything that would move a cursor or change a colour."""
    return CONTROL.sub(lambda found: " " if found[0] == "\t" else "", text)


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
    said = [words.bytes_between([sum(memory)])] if memory else []
    said += [f"{words.bytes_between([sum(gpu)])} GPU"] if gpu else []
    return [*said, *([f"{sum(cpu):.0f} % CPU"] if cpu else [])]


def step_of(ranks: Sequence[Seen]) -> str:
    """Say where ranks are: `512-515/1000`."""
    steps = [r.step for r in ranks if r.step is not None]
    if not steps:
        return ""
    totals = [r.total for r in ranks if r.total is not None]
    return words.between(steps) + (f"/{words.between(totals)}" if totals else "")


__all__ = ["counted", "plain", "state_of", "step_of", "used"]
