"""What is said of a group in a line: by the live view, and by the line of status."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from procession.output.escape import shown
from procession.values import figures
from procession.values.ranks import short_ranks
from procession.view.rows import ODDITIES, oddities
from procession.view.seen import Seen, Whole

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
OVER = ("SUCCEEDED", "FAILED", "STOPPED")


def plain(text: str) -> str:
    """Give a text without colours, in which control characters are written visibly."""
    return shown(COLOUR.sub("", text).replace("\t", " "))


def state_of(r: Seen) -> str:
    """Name the state of a rank; of one that is gone, how it ended."""
    return r.ended.lower().replace("_", " ") if r.gone and r.ended else r.state


def step_of(ranks: Sequence[Seen]) -> str:
    """Say where ranks are: `512-515/1000`."""
    steps = [r.step for r in ranks if r.step is not None]
    totals = [r.total for r in ranks if r.total is not None]
    of = f"/{figures.between(totals)}" if totals else ""
    return figures.between(steps) + of if steps else ""


def counted(whole: Whole) -> str:
    """Say how many ranks are in which state, the failed ones first: `x: 1 failed, 63 RUNNING`."""
    states: dict[str, int] = {}
    for r in sorted(whole.ranks, key=lambda r: not r.failed):
        states[state_of(r)] = states.get(state_of(r), 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{plain(whole.name)}: {counts or whole.state}"


def progress(whole: Whole) -> list[str]:
    """Say how far the slowest rank is, and for how long the group has run."""
    said: list[str] = []
    slowest = whole.slowest
    if slowest is not None:
        said.append(step_of([slowest]))
        said += [figures.rate(slowest.rate)] if slowest.rate is not None else []
        said += [f"{figures.clock(slowest.left)} left"] if slowest.left is not None else []
    if whole.restarts or whole.attempt:
        said.append(f"attempt {whole.attempt} of 0-{whole.restarts}")
    return [*said, figures.clock(whole.seconds)]


def used(whole: Whole) -> list[str]:
    """Say what all ranks use together: `12.3 GB`, `790 % CPU`."""
    all_ = [r.usage for r in whole.ranks]
    memory = [u.memory for u in all_ if u.memory is not None]
    cpu = [u.cpu for u in all_ if u.cpu is not None]
    gpu = [u.gpu for u in all_ if u.gpu is not None]
    said = [figures.sizes([sum(memory)])] if memory else []
    said += [f"{figures.sizes([sum(gpu)])} GPU"] if gpu else []
    return [*said, *([f"{sum(cpu):.0f} % CPU"] if cpu else [])]


def ending(whole: Whole) -> str:
    """Say why a group is being ended, and how long until SIGKILL; "" if it is not."""
    left = sum(not r.gone for r in whole.ranks)
    said = f"{left} {'rank' if left == 1 else 'ranks'} left"
    if whole.state == "SWEEPING" and whole.to_kill is not None:
        said = f"ending what ranks left behind, {whole.to_kill:.0f} s to SIGKILL"
    elif whole.state != "STOPPING":
        said = ""
    elif any(r.state == "KILLING" for r in whole.ranks):
        said = f"killing, {said}"
    elif whole.to_kill is not None:
        said = f"stopping, {said}, {whole.to_kill:.0f} s to SIGKILL"
    else:
        said += ", which may end by themselves"
    cause = plain(whole.cause) if whole.state not in OVER else ""  # its report says it
    return ": ".join(part for part in (cause, said) if part)


def status_line(whole: Whole) -> str:
    """Say in one line how a group is doing: the last line of the live view, and what is odd."""
    odd: dict[str, list[int]] = {kind: [] for kind in ODDITIES}
    for rank, kind in oddities(whole.ranks).items():
        odd[kind].append(rank)
    said = [", ".join([counted(whole), *progress(whole), *used(whole)])]
    said += [f"{kind}: {short_ranks(ranks)}" for kind, ranks in odd.items() if ranks]
    said += [end] if (end := ending(whole)) else []
    return f"procession: {time.strftime('%H:%M')} {'; '.join(said)}"
