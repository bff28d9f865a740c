"""The speed of ranks, from samples of their steps."""

from __future__ import annotations

from collections import deque

WINDOW = 30.0  # seconds over which a rate is taken
SPACING = 0.5  # seconds between two samples that are kept


class Pace:
    """The last steps of each rank. Times are in seconds, of any clock."""

    def __init__(self) -> None:
        self._steps: dict[int, deque[tuple[float, float]]] = {}

    def take(self, rank: int, at: float | None, step: float | None) -> None:
        """Note where a rank was at its last beat; one that goes back begins anew."""
        steps = self._steps.setdefault(rank, deque())
        if at is None or step is None or (steps and step < steps[-1][1]):
            steps.clear()
        if at is None or step is None or (steps and at <= steps[-1][0]):
            return
        if len(steps) > 1 and at - steps[-2][0] < SPACING:
            steps.pop()
        steps.append((at, step))
        while len(steps) > 2 and steps[1][0] < at - WINDOW:
            steps.popleft()

    def rate(self, rank: int, now: float) -> float | None:
        """Give steps per second; None where too little was seen, or nothing for too long."""
        steps = self._steps.get(rank, ())
        if len(steps) < 2:
            return None
        (first, low), (before, _), (last, high) = steps[0], steps[-2], steps[-1]
        if now - last > max(WINDOW, 3 * (last - before)):
            return None
        return (high - low) / (last - first)
