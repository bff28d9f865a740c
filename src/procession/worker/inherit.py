"""Descriptors that travel with pickled arguments (queues, pipes, tensors in shared memory).

`multiprocessing` pickles such an object with `DupFd(fd)` of the process that is being spawned; our
launcher answers with an `InheritedFd`, which finds its descriptor in the rank.
"""

from __future__ import annotations

_inherited: list[int] = []


def set_inherited(fds: list[int]) -> None:
    """Say which descriptors this rank inherited for its arguments, in the launcher's order."""
    _inherited[:] = fds


class InheritedFd:
    """The descriptor with this index; what `multiprocessing` calls a duplicated handle."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """Give the descriptor, which from now on belongs to the caller."""
        return _inherited[self._index]
