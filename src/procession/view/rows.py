"""Ranks that are alike share a row; an odd rank has a row of its own, and stands first. Pure.

Theory of operation. Ranks can be divided into rows in several ways, from fine to coarse; the first
that fits on the screen is taken:
1. each rank alone;
2. each odd rank alone, the others by state and progress;
3. each odd rank alone, the others by state;
4. the worst odd ranks alone, the other odd ones by what is odd, all others by state or in one row;
5. two rows: the odd ranks, and the others.
An odd rank shares a row with one that is not only where there is room for one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from procession.values.base import Value
from procession.view.seen import Seen

BEHIND = 0.05  # of all steps: a rank that is so far behind the median is slow
SLOWER = 0.8  # of the median's steps: a rank that has done less is slow, too
LEAST_BEHIND = 3  # steps
APART = 0.05  # of all steps: ranks that are so far apart do not share a row
SILENT = 10.0  # seconds without a beat, where others have one much more often
MUCH_MORE = 1.5  # times the memory that is usual
MEMORY_APART = 256 << 20  # bytes
ODDITIES = ("failed", "lost", "silent", "slow", "memory")  # the worst first


class Row(Value):
    """Some ranks. odd: what is odd about them, of `ODDITIES`, "" for nothing."""

    ranks: tuple[Seen, ...]
    odd: str = ""


def oddities(seen: Sequence[Seen]) -> dict[int, str]:
    """Give what is odd about ranks, by rank: measured by the median of the ranks that work."""
    odd: dict[int, str] = {}
    working = [r for r in seen if not r.gone]
    steps = [r.step for r in working if r.step is not None]
    beats = [r.quiet for r in working if r.quiet is not None]
    sizes = [r.usage.memory for r in working if r.usage.memory is not None]
    middle = median(steps) if steps else 0.0
    usual_quiet = median(beats) if beats else 0.0
    usual_size = median(sizes) if sizes else 0.0
    for r in seen:
        if r.failed:
            odd[r.rank] = "failed"
        elif r.state == "LOST":
            odd[r.rank] = "lost"
        elif r.gone:
            continue
        elif r.quiet is not None and r.quiet > max(SILENT, 5 * usual_quiet):
            odd[r.rank] = "silent"
        elif r.step is not None and _is_slow(r.step, middle, r.total):
            odd[r.rank] = "slow"
        elif (
            r.usage.memory is not None
            and r.usage.memory > MUCH_MORE * usual_size
            and r.usage.memory - usual_size > MEMORY_APART
        ):
            odd[r.rank] = "memory"
    return odd


def _is_slow(step: float, middle: float, total: float | None) -> bool:
    behind = middle - step
    least = min(BEHIND * (total or middle), (1 - SLOWER) * middle)
    return behind > max(LEAST_BEHIND, least)


def fold(seen: Sequence[Seen], room: int) -> list[Row]:
    """Give at most `room` rows (at least one) that hold every rank once."""
    room = max(1, room)
    why = oddities(seen)
    if len(seen) <= room:
        return [Row((r,), why.get(r.rank, "")) for r in seen]
    odd = sorted((r for r in seen if r.rank in why), key=lambda r: _worst_first(r, why))
    usual = [r for r in seen if r.rank not in why]
    alone = [Row((r,), why[r.rank]) for r in odd]
    for others in (_by_progress(usual), _by_state(usual)):
        if len(alone) + len(others) <= room:
            return alone + others
    for others in (_by_state(usual), _together(usual)):
        for worst in range(min(room, len(odd)), -1, -1):
            rows = alone[:worst] + _by_oddity(odd[worst:], why) + others
            if len(rows) <= room:
                return rows
    if room > 1 and odd and usual:
        return [Row(tuple(odd), why[odd[0].rank]), *_together(usual)]
    return [Row((*odd, *usual), why[odd[0].rank] if odd else "")]


def _worst_first(r: Seen, why: dict[int, str]) -> tuple[float, ...]:
    kind = why[r.rank]
    by_kind = {"silent": -(r.quiet or 0), "slow": r.step or 0, "memory": -(r.usage.memory or 0)}
    return (ODDITIES.index(kind), by_kind.get(kind, 0), r.rank)


def _state(r: Seen) -> tuple[str, str, str]:
    return (r.state, r.ended, r.exit)


def _groups(ranks: Iterable[Seen]) -> list[list[Seen]]:
    by_state: dict[tuple[str, str, str], list[Seen]] = {}
    for r in ranks:
        by_state.setdefault(_state(r), []).append(r)
    return list(by_state.values())


def _by_state(ranks: Iterable[Seen]) -> list[Row]:
    return [Row(tuple(group)) for group in _groups(ranks)]


def _by_progress(ranks: Iterable[Seen]) -> list[Row]:
    """Put together what has one state and is about as far: no step of more than 5 % between two."""
    rows: list[Row] = []
    for group in _groups(ranks):
        far = sorted(group, key=lambda r: (r.step is not None, r.step or 0.0, r.rank))
        cluster = [far[0]]
        for before, r in pairwise(far):
            apart = (r.step or 0.0) - (before.step or 0.0)
            of = r.total or r.step or 1.0
            if (r.step is None) != (before.step is None) or apart > max(1.0, APART * of):
                rows.append(Row(tuple(sorted(cluster, key=lambda r: r.rank))))
                cluster = []
            cluster.append(r)
        rows.append(Row(tuple(sorted(cluster, key=lambda r: r.rank))))
    return rows


def _by_oddity(odd: Iterable[Seen], why: dict[int, str]) -> list[Row]:
    kinds: dict[str, list[Seen]] = {}
    for r in odd:
        kinds.setdefault(why[r.rank], []).append(r)
    return [Row(tuple(group), kind) for kind, group in kinds.items()]


def _together(ranks: Sequence[Seen]) -> list[Row]:
    return [Row(tuple(ranks))] if ranks else []
