"""When something happened on another machine, by our own clock. Pure.

Each heartbeat goes there and back, and brings the time of the other clock. A quick round trip gives
the difference of the clocks, to within half of its duration (as in RFC 5905, section 8, but with
two times instead of four, since the answer is given at once). From then on it is ever less certain,
since no two clocks are equally fast: so a later round trip replaces it that is a little slower.
"""

from __future__ import annotations

DRIFT = 20_000  # a clock gains or loses a nanosecond in so many, at most


class Clocks:
    """The difference of two monotonic clocks, in nanoseconds."""

    def __init__(self) -> None:
        self._taken_at = 0  # by our clock; 0: there was no round trip
        self._half = 0  # of its duration
        self._offset = 0

    def take(self, sent: int, theirs: int, received: int) -> None:
        """Take a round trip: when it began and ended here, and the time there in between."""
        half = (received - sent) // 2
        if half > 0 and (not self._taken_at or half <= self.doubt(received)):
            self._taken_at, self._half = received, half
            self._offset = theirs - (sent + received) // 2

    def ours(self, theirs: int) -> int:
        """Give our time for a time there; 0, which stands for no time, stays 0."""
        return theirs - self._offset if theirs else 0

    def doubt(self, at: int) -> int:
        """Give by how much `ours` may be wrong, for one of our times."""
        return self._half + abs(at - self._taken_at) // DRIFT if self._taken_at else 0
