"""SIGCONT for a process when something happens to a socket, above all when it is closed."""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import fcntl
import os

from procession.system.signals import plain as signal

_F_SETSIG = 10


def wake(fd: int, pid: int) -> None:
    """Send SIGCONT to a process when something happens to a socket. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, pid)
    fcntl.fcntl(fd, _F_SETSIG, int(signal.SIGCONT))
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


class Bell:
    """Sends SIGCONT to a process when it is closed, as by the end of this process.

    For a fork of this process, which holds copies of all descriptors that were open before. So
    these two sockets are made after the fork: at the end of this process one of them is closed
    first, which the other one tells.
    """

    def __init__(self, pid: int = 0) -> None:
        """pid: 0 for nobody. Where no descriptor is left, it rings for nobody either."""
        self._sockets: tuple[socket.socket, ...] = ()
        try:
            self._sockets = socket.socketpair() if pid else ()
            for each in self._sockets:
                wake(each.fileno(), pid)
        except OSError:
            self.close()

    def close(self) -> None:
        """Ring it, and close it."""
        for each in self._sockets:
            each.close()
        self._sockets = ()

    def forget_descriptors(self) -> None:
        """Close nothing: something else may have these numbers now."""
        for each in self._sockets:
            each.detach()
        self._sockets = ()


def wake_no_more(fd: int) -> None:
    """Take that back. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
