"""Signals that wait, or are for a group, and the `signal` module below its enumerations.

And one for a process when something happens to a socket, above all when it is closed. Standard
library only.

`signal` itself imports `enum` and much with it, which is felt where an agent starts. And its
`pthread_sigmask` makes a member of an enumeration of every signal that was blocked, which is felt
where it is called for each rank.
"""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as plain
    from collections.abc import Collection
else:
    import _signal as plain

__all__ = ["Held", "plain", "signal_group", "signal_groups", "wake", "wake_no_more"]


class Held:
    """`with Held(signals) as before`: these signals wait for the end of the block, in this thread.

    Gives the mask from before. Python looks for signals in `pthread_sigmask` itself, after the
    change: a KeyboardInterrupt from there must not leave them blocked for ever.
    """

    def __init__(self, signals: Collection[int]) -> None:
        self._signals = signals

    def __enter__(self) -> set[int]:
        self._before: set[int] = set(plain.pthread_sigmask(plain.SIG_BLOCK, ()))
        try:
            plain.pthread_sigmask(plain.SIG_BLOCK, self._signals)
        except BaseException:
            self._restore()
            raise
        return self._before

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        plain.pthread_sigmask(plain.SIG_SETMASK, self._before)


def signal_groups(pids: list[int], number: int) -> None:
    """Signal the process groups that these processes lead, and let them go on if they stand still.

    All are told before the first goes on. Those that are gone are left out.
    """
    for pid in pids:
        try:
            signal_group(pid, number)
        except OSError:
            pass
    for pid in pids if number != plain.SIGKILL else ():
        try:
            os.killpg(pid, plain.SIGCONT)  # a stopped process could not obey
        except OSError:
            pass


def signal_group(pid: int, number: int) -> None:
    """Signal the process group that a process leads, or is about to. Raises OSError."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not made its session yet
        os.kill(pid, number)


_F_SETSIG = 10


def wake(fd: int, pid: int, number: int = plain.SIGCONT) -> None:
    """Send a signal to a process when something happens to a socket. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, pid)
    fcntl.fcntl(fd, _F_SETSIG, int(number))
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def wake_no_more(fd: int) -> None:
    """Take that back. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
