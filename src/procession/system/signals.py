"""Signals that wait, or are for a group, and the `signal` module below its enumerations.

Standard library only.

`signal` itself imports `enum` and much with it, which is felt where a forkserver starts. And its
`pthread_sigmask` makes a member of an enumeration of every signal that was blocked, which is felt
where it is called for each rank.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as plain
    from collections.abc import Collection
else:
    import _signal as plain

__all__ = ["Held", "plain", "signal_group"]


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


def signal_group(pid: int, number: int) -> None:
    """Signal the process group that a process leads, and let it go on if it stands still.

    Raises OSError if it is gone.
    """
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not made its session yet
        os.kill(pid, number)
    if number != plain.SIGKILL:
        os.killpg(pid, plain.SIGCONT)  # a stopped process could not obey
