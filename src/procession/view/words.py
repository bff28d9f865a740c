"""What is said of a group in a line: by the live view, and by the line of status."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence

from procession.output.text import shown
from procession.values import figures
from procession.values.figures import short_ranks
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


def summary(whole: Whole) -> str:
    """Say in one line how a group is doing: the failed ranks first, then how far the slowest is.

    As in `x: 1 failed, 63 RUNNING, 508/1000, 1.94/s, 4:13 left, 5:12, 12.3 GB, 790 % CPU`.
    """
    states = Counter(state_of(r) for r in sorted(whole.ranks, key=lambda r: not r.failed))
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    said = [f"{plain(whole.name)}: {counts or whole.state}"]
    stepping = [r for r in whole.ranks if r.step is not None]
    if stepping:
        working = [r for r in stepping if not r.gone]
        slowest = min(working or stepping, key=lambda r: r.step or 0.0)
        said.append(step_of([slowest]))
        if slowest.rate is not None:
            said.append(figures.rate(slowest.rate))
        if slowest.left is not None:
            said.append(f"{figures.clock(slowest.left)} left")
    if whole.restarts or whole.attempt:
        said.append(f"attempt {whole.attempt} of 0-{whole.restarts}")
    said.append(figures.clock(whole.seconds))
    memory = [r.usage.memory for r in whole.ranks if r.usage.memory is not None]
    gpu = [r.usage.gpu for r in whole.ranks if r.usage.gpu is not None]
    cpu = [r.usage.cpu for r in whole.ranks if r.usage.cpu is not None]
    if memory:
        said.append(figures.sizes([sum(memory)]))
    if gpu:
        said.append(f"{figures.sizes([sum(gpu)])} GPU")
    if cpu:
        said.append(f"{sum(cpu):.0f} % CPU")
    return ", ".join(said)


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
    said = [summary(whole)]
    said += [f"{kind}: {short_ranks(ranks)}" for kind, ranks in odd.items() if ranks]
    said += [end] if (end := ending(whole)) else []
    return f"procession: {time.strftime('%H:%M')} {'; '.join(said)}"
