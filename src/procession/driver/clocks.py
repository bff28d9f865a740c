"""When something happened on another machine, by our own clock. Pure.

Each heartbeat goes there and back, and brings the time of the other clock. The quickest round trip
so far gives the difference of the clocks, to within half of its duration (as in RFC 5905, section
8, but with two times instead of four, since the answer is given at once).
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
