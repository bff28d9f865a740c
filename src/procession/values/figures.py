"""Numbers, sizes, times and rates as people read them, in few characters; of several, their range.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
