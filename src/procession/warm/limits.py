"""How much may be kept: the number of forkservers, and their memory together. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from procession.values.base import is_count

MOST, MOST_MEMORY = "PROCESSION_WARM_MOST", "PROCESSION_WARM_MEMORY"
DEFAULT_MOST = 8
DEFAULT_MEMORY = 4 << 30
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def read_limits(env: Mapping[str, str]) -> tuple[int, int]:
    """Give how many may be kept, and how many bytes; a value that cannot be read is ignored."""
    most = env.get(MOST, "")
    size = env.get(MOST_MEMORY, "").upper().removesuffix("B")
    digits = size.rstrip("KMGT")
    unit = UNITS.get(size[len(digits) :], 0)
    return (
        int(most) if is_count(most, 19) else DEFAULT_MOST,
        int(digits) * unit if is_count(digits, 19) and unit else DEFAULT_MEMORY,
    )
