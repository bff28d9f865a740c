"""SIGCONT for a process when something happens to its socket, above all when it is closed."""

from __future__ import annotations

import fcntl
import os

from procession.system.signals import plain as signal

_F_SETSIG = 10


def wake(fd: int, pid: int) -> None:
    """Send SIGCONT to a process when something happens to a socket. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, pid)
    fcntl.fcntl(fd, _F_SETSIG, int(signal.SIGCONT))
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def wake_no_more(fd: int) -> None:
    """Take that back. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
