"""Ranks as `multiprocessing` sees processes: with exit code, sentinel, `join` and `terminate`.

A `multiprocessing.Process` asks a "popen" object of its own about its process. `RankPopen` is such
an object that asks the group, so that the processes we hand out are `multiprocessing`'s own, with
all that they do.
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections.abc import Callable

from procession.api.watch import RankProcess, Watch
from procession.group.group import Group

UNKNOWN_STATUS = 255  # what `multiprocessing` shows for a process whose exit status is not known


class Sentinel:
    """A descriptor that can be read from when a rank has ended; it is closed with this object."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.close = weakref.finalize(self, os.close, self.fd)

    def ring(self) -> None:
        """Make it readable."""
        if self.close.alive:
            os.eventfd_write(self.fd, 1)


class RankPopen(RankProcess):
    """What a `multiprocessing.Process` asks about a rank."""

    def __init__(self, group: Group, watch: Watch, rank: int, sentinel: Sentinel) -> None:
        super().__init__(group, watch, rank)
        self._sentinel = sentinel

    def itself(self, process: object) -> RankPopen:
        """Give this object, where `process.start()` would make one."""
        del process
        return self

    @property
    def sentinel(self) -> int:
        """The descriptor that can be read from when the rank has ended."""
        return self._sentinel.fd

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end; give the exit code, None if it has not ended after `timeout`."""
        return self.ended(timeout)

    def interrupt(self) -> None:
        """Send SIGINT."""
        self.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Close the sentinel."""
        self._sentinel.close()


def remaining(timeout: float | None) -> Callable[[], float | None]:
    """Give a function that returns what is left of `timeout` seconds from now."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else max(0.0, end - time.monotonic())
