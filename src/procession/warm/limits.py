"""How much may be kept: the number of agents, and their memory together. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from procession.values.base import is_count
from procession.values.placement import read_size

MOST, MOST_MEMORY = "PROCESSION_WARM_MOST", "PROCESSION_WARM_MEMORY"
DEFAULT_MOST = 8
DEFAULT_MEMORY = 4 << 30


def read_limits(env: Mapping[str, str]) -> tuple[int, int]:
    """Give how many may be kept, and how many bytes; a value that cannot be read is ignored."""
    most = env.get(MOST, "")
    try:
        memory = read_size(env.get(MOST_MEMORY, ""))
    except ValueError:
        memory = DEFAULT_MEMORY
    return int(most) if is_count(most, 19) else DEFAULT_MOST, memory
