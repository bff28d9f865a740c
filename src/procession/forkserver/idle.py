"""What a forkserver does for the next launch while it is idle.

Theory of operation. When a group is over, and nothing has come for a moment, the memory of the
forkserver is put into huge pages, so that its next ranks are forked several times quicker
(`system.hugepages`). That is done in steps of some milliseconds, and given up when a command comes.
It is not done for the first launch of a forkserver: it would take longer than it saves there. And
it is done again only when more was loaded. A launch splits some huge pages, those that are written
to while ranks live. The next launch would split the same ones, so that putting them together after
each launch made no later fork quicker.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterator

PAUSE = 0.05  # seconds without a command, after which the work begins


class Idle:
    """The work of one forkserver while it is idle."""

    def __init__(self) -> None:
        self._idle = False
        self._done = False  # for what is loaded so far
        self._steps: Iterator[int] | None = None

    def begin(self) -> None:
        """A group is over, and nothing is left of it."""
        self._idle = True

    def end(self) -> None:
        """A group begins; what is not finished begins anew after it."""
        self._idle = False
        self._steps = None

    def loaded(self) -> None:
        """More is in memory: modules, or the value of a shared set-up."""
        self._done = False
        self._steps = None

    def patience(self, longest: float | None) -> float | None:
        """Say for how many seconds to wait for a command, `longest` at most; None is for ever."""
        if not self._idle or self._done:
            return longest
        return PAUSE if self._steps is None else 0

    def work(self) -> bool:
        """Do a step, as no command has come; False if there is nothing to do."""
        if not self._idle or self._done:
            return False
        if self._steps is None:
            from procession.system import hugepages

            self._steps = hugepages.steps()
        self._done = next(self._steps, None) is None
        return True
