"""When something happened on another machine, by our own clock. Pure.

Each heartbeat goes there and back, with the time by the other clock in between: the quickest one so
far says how far the clocks are apart, to within half of its own duration (as in RFC 5905, section
8, with two times in place of four: the answer is given at once).
"""

from __future__ import annotations


class Clocks:
    """The difference of two monotonic clocks, in nanoseconds."""

    def __init__(self) -> None:
        self.quickest = 0  # duration of the best round trip; 0: there was none
        self._offset = 0

    def take(self, sent: int, theirs: int, received: int) -> None:
        """Take a round trip: when it began and ended here, and the time there in between."""
        took = received - sent
        if took > 0 and (not self.quickest or took < self.quickest):
            self.quickest = took
            self._offset = theirs - (sent + received) // 2

    def ours(self, theirs: int) -> int:
        """Give our time for a time there; 0, which stands for no time, stays 0."""
        return theirs - self._offset if theirs else 0


__all__ = ["Clocks"]
