"""Ranks that are alike share a row; an odd rank has a row of its own, and stands first. Pure.

Where each rank has room for a row, it has one. Else odd ranks come first, the worst alone, as many
as there is room for; the other odd ones share a row, and all others one for each state. An odd rank
shares a row with one that is not only where there is room for one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from procession.values.base import Value
from procession.view.seen import Seen

BEHIND = 0.05  # of all steps: a rank that is so far behind the median is slow
SLOWER = 0.8  # of the median's steps: a rank that has done less is slow, too
LEAST_BEHIND = 3  # steps
SILENT = 10.0  # seconds without a beat, where others have one much more often
MUCH_MORE = 1.5  # times the memory that is usual
MEMORY_APART = 256 << 20  # bytes
ODDITIES = ("failed", "lost", "silent", "slow", "much memory")  # the worst first


class Row(Value):
    """Some ranks. odd: what is odd about them, of `ODDITIES`, "" for nothing."""

    ranks: tuple[Seen, ...]
    odd: str = ""


def oddities(seen: Sequence[Seen]) -> dict[int, str]:
    """Give what is odd about ranks, by rank: measured by the median of the ranks that work."""

    def usual(values: Iterable[float | None]) -> float:
        return median([v for v in values if v is not None] or [0.0])

    working = [r for r in seen if not r.gone]
    step = usual(r.step for r in working)
    quiet = usual(r.quiet for r in working)
    memory = usual(r.usage.memory for r in working)

    def odd(r: Seen) -> str:
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


def fold(seen: Sequence[Seen], room: int) -> list[Row]:
    """Give at most `room` rows (at least one) that hold every rank once."""
    why = oddities(seen)
    if len(seen) <= room:
        return [Row((r,), why.get(r.rank, "")) for r in seen]
    odd = [r for r in seen if r.rank in why]
    odd.sort(key=lambda r: (ODDITIES.index(why[r.rank]), r.step or 0.0))
    usual = [r for r in seen if r.rank not in why]
    if room < 2:
        return [Row(tuple(seen), why[odd[0].rank] if odd else "")]
    groups: dict[object, list[Seen]] = {}
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
