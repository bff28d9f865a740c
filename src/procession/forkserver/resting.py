"""What a forkserver does for the next launch while nobody wants anything of it.

Theory of operation. When a group is over, and nothing has come for a moment, the memory of the
forkserver is put into huge pages, so that its next ranks are forked several times quicker
(`system.hugepages`). That is done in steps of some milliseconds, and given up when a wish arrives.
It is not done for the first launch of a forkserver: it would take longer than it saves there.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Iterator

PAUSE = 0.05  # seconds without a wish, after which the work begins


class Resting:
    """The work of one forkserver at rest."""

    def __init__(self) -> None:
        self._rests = False
        self._done = False  # for what it has imported so far
        self._steps: Iterator[int] | None = None

    def begin(self) -> None:
        """A group is over, and nothing is left of it."""
        self._rests = True

    def end(self) -> None:
        """A group begins, or more is imported."""
        self._rests = self._done = False
        self._steps = None

    def patience(self, longest: float | None) -> float | None:
        """Say for how many seconds to wait for a wish, `longest` at most; None is for ever."""
        if not self._rests or self._done:
            return longest
        return PAUSE if self._steps is None else 0

    def work(self) -> bool:
        """Do a step, as no wish has come; False if there is nothing to do."""
        if not self._rests or self._done:
            return False
        if self._steps is None:
            from procession.system import hugepages

            self._steps = hugepages.steps()
        self._done = next(self._steps, None) is None
        return True


def gather() -> None:
    """Do all of it at once, also with memory that other processes have: it is copied."""
    from procession.system import hugepages

    hugepages.gather(shared=True)
