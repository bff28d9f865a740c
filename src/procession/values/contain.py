"""Where ranks live, so that all that they started can be ended together, as people write it."""

from __future__ import annotations

import os

from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Contain = Literal["forkserver", "pidns", "cgroup"]

VARIABLE = "PROCESSION_CONTAIN"
CONTAINMENTS: tuple[Contain, ...] = ("forkserver", "pidns", "cgroup")


def check_contain(contain: object, where: str = "contain") -> Contain:
    """Check what a caller gave; None: what the environment says. Raises SpecError."""
    if contain is None:
        where, contain = VARIABLE, os.environ.get(VARIABLE) or "forkserver"
    for name in CONTAINMENTS:
        if contain == name:
            return name
    raise SpecError(f"{where} must be one of {', '.join(CONTAINMENTS)}, not {contain!r}")


def check_contained(contain: Contain, start_method: str, memory_limit: object) -> Contain:
    """Check what does not go together. start_method, memory_limit: of the same ranks.

    Raises SpecError.
    """
    if contain != "forkserver" and start_method == "fork":
        raise SpecError(
            f"contain={contain!r} does not go with start_method='fork': forks of this process are "
            "where this process is"
        )
    if contain == "cgroup" and memory_limit is not None:
        raise SpecError(
            "contain='cgroup' does not go with memory_limit, which may give each rank a cgroup of "
            "its own"
        )
    return contain
