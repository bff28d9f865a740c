"""Descriptors that travel with pickled arguments (queues, pipes, tensors in shared memory).

`multiprocessing` pickles such an object with `DupFd(fd)` of the process that is being spawned. Our
launcher returns an `InheritedFd` there, which finds its descriptor in the rank.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from typing import Any

_inherited: list[int] = []


def set_inherited(fds: list[int]) -> None:
    """Say which descriptors this rank inherited for its arguments, in the launcher's order."""
    _inherited[:] = fds


class InheritedFd:
    """The descriptor with this index; what `multiprocessing` calls a duplicated handle."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """Give the descriptor, which belongs to the caller from now on."""
        return _inherited[self._index]


def refuse_fork_lock(obj: Any) -> None:
    """Raise RuntimeError for a lock of `multiprocessing`'s fork context.

    Such a lock has no name, only an address in the memory of the process that made it, and of its
    forks: in any other process its use is a segmentation fault. Not every CPython refuses to pickle
    it (Debian 12's 3.11.2 does not). Conditions, events, queues and the like contain such locks.
    """
    synchronize = sys.modules.get("multiprocessing.synchronize")
    if synchronize is None or not issubclass(type(obj), synchronize.SemLock):
        return
    if obj._semlock.name is None:
        raise RuntimeError("a lock of multiprocessing's fork context can be used in forks only")
