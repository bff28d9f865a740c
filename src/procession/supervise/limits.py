"""How a group is to be stopped: by which signal, and how long everything may take."""

from __future__ import annotations

import time

from procession.prepare.resources import Board
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import DeadlineKind
from procession.values.policy import StopRequest
from procession.values.spec import Spec

NEVER = float("inf")  # `math` is a library to load


class Limits:
    """The stop signal and the times of one group; a request to stop may change them.

    stop_signal: by which ranks are asked to end. patience: seconds that ranks of a failed group may
    go on; None: until it is set. grace_ends: when what is being ended gets SIGKILL, in seconds
    of the monotonic clock; infinite while nothing is.
    """

    def __init__(self, spec: Spec, life: Lifecycle, board: Board) -> None:
        self.stop_signal = int(spec.stop.signal)
        self.patience = spec.stop.patience
        self.notice = spec.stop.notice
        self.grace_ends = NEVER
        self._grace = spec.stop.grace
        self._spec = spec
        self._life = life
        self._board = board

    @property
    def kill_at(self) -> float | None:
        """When what is being ended gets SIGKILL, in seconds of the monotonic clock, if it is."""
        return self.grace_ends if self.grace_ends < NEVER else None

    def change(self, request: StopRequest) -> bool:
        """Take what a request to stop gives; whether a group that is being ended must hurry."""
        hurry = False
        if request.signal is not None:
            hurry = request.signal != self.stop_signal
            self.stop_signal = request.signal
        if request.grace is not None:
            self._grace = request.grace
            hurry = hurry or time.monotonic() + request.grace < self.grace_ends
        if request.notice is not None:
            taken_back = self._life.waiting and not request.notice
            hurry = hurry or taken_back
            self.notice = request.notice
        return hurry

    def begin(self, kind: DeadlineKind, backoff: float) -> float | None:
        """Give the seconds until a deadline that begins now, None for one that is not to be set.

        What ranks can know of it is written to the board. backoff: seconds until what failed starts
        again.
        """
        if kind is DeadlineKind.PATIENCE:
            return self.patience
        if kind is DeadlineKind.NOTICE:
            self._board.tell_stop(self.notice, self.notice + self._grace)
            return self.notice
        if kind is DeadlineKind.GRACE:  # one deadline: it may only become shorter
            self.grace_ends = min(self.grace_ends, time.monotonic() + self._grace)
            left = self.grace_ends - time.monotonic()
            self._board.tell_stop(0.0, left, self.stop_signal)
            return left
        linger = self._spec.stop.linger
        if kind is DeadlineKind.LINGER:  # without a time, it has until SIGKILL
            return None if linger is None else min(linger, self._grace)
        if kind is DeadlineKind.LINGER_IT:
            return self._grace if linger is None else min(linger, self._grace)
        if kind is DeadlineKind.START:
            return self._spec.hang.start
        if kind is DeadlineKind.START_IT:
            return self._spec.hang.start + backoff
        return backoff if kind is DeadlineKind.BACKOFF else self._spec.stop.reap
