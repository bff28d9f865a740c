"""Figures as people read them, in few characters; of several, their range."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from procession.ranks import fold_ranks
from procession.report import MEMORY_UNITS

LONGEST_RANKS = 18


def number(value: float) -> str:
    """Write a figure: `512`, `0.0314`, `2.5e+09`."""
    if abs(value) < 1e15 and value == int(value):
        return str(int(value))
    return f"{value:.4g}"


def between(values: Sequence[float], write: Callable[[float], str] = number) -> str:
    """Write the range of some figures, or the one that they are: `512-515`."""
    low, high = write(min(values)), write(max(values))
    if low == high:
        return low
    return f"{low}..{high}" if low.startswith("-") else f"{low}-{high}"


def bytes_between(counts: Sequence[int]) -> str:
    """Write the range of some sizes, in one unit: `1.2-1.4 GB`."""
    for unit, size in MEMORY_UNITS:
        if max(counts) >= size:
            return f"{between([c / size for c in counts], lambda c: f'{c:.1f}')} {unit}"
    return f"{between(list(counts))} B"


def clock(seconds: float) -> str:
    """Write a duration as a clock shows it: `0:45`, `1:02:03`, `2d 03h`."""
    left = max(0, int(seconds))
    if left >= 2 * 86400:
        return f"{left // 86400}d {left % 86400 // 3600:02}h"
    hours, minutes = divmod(left // 60, 60)
    return f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"


def roughly(seconds: float) -> str:
    """Write a duration in words: `45 s`, `5 min`, `3.5 h`, `2.1 days`."""
    if seconds < 60:
        return f"{int(seconds)} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"


def rate(per_second: float) -> str:
    """Write how fast something goes: `1.9/s`, `12/min`."""
    if per_second >= 1 or not per_second:
        return f"{per_second:.3g}/s" if per_second < 1000 else f"{per_second:.0f}/s"
    if per_second * 60 >= 1:
        return f"{per_second * 60:.2g}/min"
    return f"{per_second * 3600:.2g}/h"


def ranks(members: Sequence[int], most: int = LONGEST_RANKS) -> str:
    """Name ranks in at most so many characters: `3`, `[0-31,40-63]`, `[0,2,4,6...] 32`."""
    text = fold_ranks(members)
    if len(members) == 1:
        return text
    if len(text) + 2 <= most:
        return f"[{text}]"
    count = f"...] {len(members)}"
    kept = text[: max(1, most - 1 - len(count))]
    return f"[{kept.rpartition(',')[0] or kept}{count}"


__all__ = ["between", "bytes_between", "clock", "number", "ranks", "rate", "roughly"]
