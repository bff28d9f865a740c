"""Numbers, sizes, times, rates and ranks as people read them, in few characters.

Of several figures, their range. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from procession.values.base import is_count

LONGEST_RANKS = 18  # characters
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


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


def size(count: int) -> str:
    """Write a number of bytes: `11.8 GB`."""
    return sizes([count]) if count >= 1000 else f"{count} bytes"


def sizes(counts: Sequence[int]) -> str:
    """Write the range of some numbers of bytes, in one unit: `1.2-1.4 GB`."""
    for unit, one in UNITS:
        if max(counts) >= one:
            return f"{between([c / one for c in counts], lambda c: f'{c:.1f}')} {unit}"
    return f"{between(list(counts))} B"


def duration(seconds: float) -> str:
    """Write a duration: `0.4 ms`, `2.35 s`, `4 min 10 s`, `2 h 5 min`."""
    if seconds < 0.1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def clock(seconds: float) -> str:
    """Write a duration as a clock shows it: `0:45`, `1:02:03`, `2d 03h`."""
    left = max(0, int(seconds))
    if left >= 2 * 86400:
        return f"{left // 86400}d {left % 86400 // 3600:02}h"
    hours, minutes = divmod(left // 60, 60)
    return f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"


def rate(per_second: float) -> str:
    """Write how fast something goes: `1.9/s`, `12/min`."""
    if per_second >= 1 or not per_second:
        return f"{per_second:.3g}/s" if per_second < 1000 else f"{per_second:.0f}/s"
    if per_second * 60 >= 1:
        return f"{per_second * 60:.2g}/min"
    return f"{per_second * 3600:.2g}/h"


def parse_ranks(text: str) -> frozenset[int]:
    """Read a list of ranks such as `0,2,5-7`. Raises ValueError."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not is_count(first, 6) or (dash and not is_count(last, 6)):
            raise ValueError(f"not a list of ranks: {text!r}; write, for example, 0,2,5-7")
        low, high = int(first), int(last) if dash else int(first)
        if low > high:
            raise ValueError(f"not a range of ranks: {part.strip()!r}; the smaller comes first")
        ranks.update(range(low, high + 1))
    return frozenset(ranks)


def fold_ranks(ranks: Iterable[int]) -> str:
    """Write ranks as short as possible: `0-2,4`."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def format_ranks(ranks: Iterable[int]) -> str:
    """Write ranks for a sentence: `rank 3`, `ranks 0-2,4`."""
    members = set(ranks)
    return f"rank{'' if len(members) == 1 else 's'} {fold_ranks(members)}"


def short_ranks(members: Sequence[int]) -> str:
    """Name ranks in at most `LONGEST_RANKS` characters: `3`, `[0-31,40-63]`, `[0,2,4,6...] 32`."""
    text = fold_ranks(members)
    if len(members) == 1:
        return text
    if len(text) + 2 <= LONGEST_RANKS:
        return f"[{text}]"
    count = f"...] {len(members)}"
    kept = text[: LONGEST_RANKS - 1 - len(count)]
    return f"[{kept.rpartition(',')[0] or kept}{count}"
