"""Ranks of a function that end together: none begins to exit before all have returned.

Theory of operation. Peers may still need a rank whose function has returned: they connect to it,
or read from it, and fail if it has exited by then. All ranks have the read end of one pipe. A rank
that has reported its value reads a byte of it, which the launcher writes for each rank when all
have returned, or when the group ends otherwise.

Rejected: the end of the pipe, instead of bytes (forks of the launcher hold copies of its other
end); `multiprocessing`'s events (their semaphores have names, and need a process that removes
them).
"""

from __future__ import annotations

import os

from procession.worker.streams import identity

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Gate:
    """A rank's end of it. fd: the pipe's read end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._identity = identity(fd)
        self._pid = 0

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import DupFd

        dup: Any = DupFd
        return _arrived, (dup(self._fd),)

    def enter(self) -> None:
        """Have this process wait at the gate before it exits."""
        global _entered
        _entered = self
        self._pid = os.getpid()

    def wait(self) -> None:
        """Wait until the launcher opens it; not in forks, nor if the program has closed it."""
        if self._pid == os.getpid() and identity(self._fd) == self._identity:
            os.read(self._fd, 1)


_entered: Gate | None = None


def call(function: Callable[..., Any], gate: Gate, *args: Any) -> Any:
    """Call a rank's function, after which the rank waits for the others."""
    gate.enter()
    return function(*args)


def _arrived(fd: Any) -> Gate:
    return Gate(fd.detach())


def wait() -> None:
    """Wait until the other ranks have returned, too, if this one has entered a gate."""
    if _entered is not None:
        _entered.wait()
