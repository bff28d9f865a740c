"""What is said of a group in a line: by the live view, and by the line of status.

Ranks that are alike share a row of the view; an odd rank has a row of its own, and stands first.
Where each rank has room for a row, it has one. Else odd ranks come first, the worst alone, as many
as there is room for; the other odd ones share a row, and all others one for each state. An odd rank
shares a row with one that is not only where there is room for one row.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from procession.output.text import shown
from procession.values import figures
from procession.values.base import Value
from procession.values.figures import short_ranks
from procession.view.seen import RankView, Whole

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
BEHIND = 0.05  # of all steps: a rank that is so far behind the median is slow
SLOWER = 0.8  # of the median's steps: a rank that has done less is slow, too
LEAST_BEHIND = 3  # steps
SILENT = 10.0  # seconds without a beat, where others have one much more often
MUCH_MORE = 1.5  # times the memory that is usual
MEMORY_APART = 256 << 20  # bytes
ODDITIES = ("failed", "lost", "silent", "slow", "much memory")  # the worst first
OVER = ("SUCCEEDED", "FAILED", "STOPPED")


def plain(text: str) -> str:
    """Give a text without colours, in which control characters are written visibly."""
    return shown(COLOUR.sub("", text).replace("\t", " "))


def state_of(r: RankView) -> str:
    """Name the state of a rank; of one that is gone, how it ended."""
    return r.ended.lower().replace("_", " ") if r.gone and r.ended else r.state


def step_of(ranks: Sequence[RankView]) -> str:
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


class Row(Value):
    """Some ranks. odd: what is odd about them, of `ODDITIES`, "" for nothing."""

    ranks: tuple[RankView, ...]
    odd: str = ""


def oddities(seen: Sequence[RankView]) -> dict[int, str]:
    """Give what is odd about ranks, by rank: measured by the median of the ranks that work."""

    def usual(values: Iterable[float | None]) -> float:
        return median([v for v in values if v is not None] or [0.0])

    working = [r for r in seen if not r.gone]
    step = usual(r.step for r in working)
    quiet = usual(r.quiet for r in working)
    memory = usual(r.usage.memory for r in working)

    def odd(r: RankView) -> str:
        if r.failed or r.gone:
            return "failed" if r.failed else "lost" if r.state == "LOST" else ""
        if (r.quiet or 0.0) > max(SILENT, 5 * quiet):
            return "silent"
        least = max(LEAST_BEHIND, min(BEHIND * (r.total or step), (1 - SLOWER) * step))
        if r.step is not None and step - r.step > least:
            return "slow"
        much = max(MUCH_MORE * memory, memory + MEMORY_APART)
        return "much memory" if (r.usage.memory or 0) > much else ""

    return {r.rank: found for r in seen if (found := odd(r))}


def fold(seen: Sequence[RankView], room: int) -> list[Row]:
    """Give at most `room` rows (at least one) that hold every rank once."""
    why = oddities(seen)
    if len(seen) <= room:
        return [Row((r,), why.get(r.rank, "")) for r in seen]
    odd = [r for r in seen if r.rank in why]
    odd.sort(key=lambda r: (ODDITIES.index(why[r.rank]), r.step or 0.0))
    usual = [r for r in seen if r.rank not in why]
    if room < 2:
        return [Row(tuple(seen), why[odd[0].rank] if odd else "")]
    groups: dict[object, list[RankView]] = {}
    for r in usual:
        groups.setdefault((r.state, r.ended, r.exit), []).append(r)
    if len(groups) > room // 2:
        groups = {"": usual}
    free = room - len(groups)
    alone = odd if len(odd) <= free else odd[: free - 1]
    rows = [Row((r,), why[r.rank]) for r in alone]
    if rest := odd[len(alone) :]:
        kinds = {why[r.rank] for r in rest}
        rows.append(Row(tuple(rest), kinds.pop() if len(kinds) == 1 else "odd"))
    return rows + [Row(tuple(group)) for group in groups.values()]
