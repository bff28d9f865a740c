"""Ranks that are alike share a row; an odd rank has a row of its own, and stands first. Pure.

Where each rank has room for a row, it has one. Else odd ranks come first, the worst alone, as many
as there is room for; the other odd ones share a row for each oddity, and all others one for each
state. An odd rank shares a row with one that is not only where there is room for one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    odd = sorted((r for r in seen if r.rank in why), key=lambda r: _worst_first(r, why))
    usual = [r for r in seen if r.rank not in why]
    alone = [Row((r,), why[r.rank]) for r in odd]
    others = [Row(ranks) for ranks in _grouped(usual, lambda r: (r.state, r.ended, r.exit))]
    if len(others) > room // 2:
        others = [Row(tuple(usual))] if usual else []
    for worst in range(len(odd), -1, -1):
        rest = _grouped(odd[worst:], lambda r: why[r.rank])
        rows = [*alone[:worst], *(Row(ranks, why[ranks[0].rank]) for ranks in rest), *others]
        if len(rows) <= room:
            return rows
    if room > 1 and others:
        return [Row(tuple(odd), why[odd[0].rank]), *others]
    return [Row((*odd, *usual), why[odd[0].rank] if odd else "")]


def _worst_first(r: Seen, why: dict[int, str]) -> tuple[float, ...]:
    kind = why[r.rank]
    by_kind = {"silent": -(r.quiet or 0), "slow": r.step or 0, ODDITIES[-1]: -(r.usage.memory or 0)}
    return (ODDITIES.index(kind), by_kind.get(kind, 0), r.rank)


def _grouped(ranks: Iterable[Seen], key: Callable[[Seen], object]) -> list[tuple[Seen, ...]]:
    groups: dict[object, list[Seen]] = {}
    for r in ranks:
        groups.setdefault(key(r), []).append(r)
    return [tuple(group) for group in groups.values()]
