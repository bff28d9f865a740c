"""How a group is to be stopped: by which signal, and how long everything may take."""

from __future__ import annotations

import os
import time

from procession.rules.tables import DeadlineKind
from procession.worker.board import COUNTER, COUNTS, GROUP, RETURNED

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

NEVER = float("inf")  # `math` is a library to load
LONGEST = 1e9  # seconds that stand on the board


class Limits:
    """The stop signal and the times of one group; a request to stop may change them.

    words: the fields of `Stop`, and `start` of `Hang`. board: descriptor of the board, where ranks
    are told; it belongs to this object.

    stop_signal: by which ranks are asked to end. patience: seconds that ranks of a failed group may
    go on; None: until it is set. grace_ends: when what is being ended gets SIGKILL, in seconds
    of the monotonic clock; infinite while nothing is.
    """

    def __init__(self, words: dict[str, Any], board: int) -> None:
        self.stop_signal: int = words["signal"]
        self.patience: float | None = words["patience"]
        self.notice: float = words["notice"]
        self.grace_ends = NEVER
        self._grace: float = words["grace"]
        self._linger: float | None = words["linger"]
        self._reap: float = words["reap"]
        self._start: float = words["start"]
        self.board = board

    def change(self, request: dict[str, Any], *, waiting: bool) -> bool:
        """Take what a request to stop gives; whether a group that is being ended must hurry.

        waiting: the ranks of that group may still end by themselves.
        """
        hurry = False
        if "signal" in request:
            hurry = request["signal"] != self.stop_signal
            self.stop_signal = request["signal"]
        if "grace" in request:
            self._grace = request["grace"]
            hurry = hurry or time.monotonic() + self._grace < self.grace_ends
        if "notice" in request:
            hurry = hurry or (waiting and not request["notice"])
            self.notice = request["notice"]
        return hurry

    def begin_deadline(self, kind: DeadlineKind, backoff: float) -> float | None:
        """Give the seconds until a deadline that begins now, None for one that is not to be set.

        What ranks can know of it is written to the board. backoff: seconds until a single rank that
        failed starts again.
        """
        if kind is DeadlineKind.PATIENCE:
            return self.patience
        if kind is DeadlineKind.NOTICE:
            self._tell_stop(self.notice, self.notice + self._grace)
            return self.notice
        if kind is DeadlineKind.GRACE:  # one deadline: it may only become shorter
            self.grace_ends = min(self.grace_ends, time.monotonic() + self._grace)
            left = self.grace_ends - time.monotonic()
            self._tell_stop(0.0, left, self.stop_signal)
            return left
        if kind is DeadlineKind.LINGER:  # without a time, it has until SIGKILL
            return None if self._linger is None else min(self._linger, self._grace)
        if kind is DeadlineKind.LINGER_IT:
            return self._grace if self._linger is None else min(self._linger, self._grace)
        if kind is DeadlineKind.START:
            return self._start
        if kind is DeadlineKind.START_IT:
            return self._start + backoff
        return self._reap

    # -- the page of the group on the board, see `worker.board`

    def _tell_stop(self, to_signal: float, to_kill: float, number: int = 0) -> None:
        """Tell the ranks that the group is being ended, with the seconds until signal and kill."""
        now = time.monotonic_ns()
        ends, signalled = (now + int(min(s, LONGEST) * 1e9) for s in (to_kill, to_signal))
        self._write(GROUP.pack(now, ends, signalled, number), COUNTER)

    def tell_returned(self) -> None:
        """Tell the ranks that all of them have returned."""
        self._write(b"\1", RETURNED)

    def _write(self, data: bytes, at: int) -> None:
        """Write to the page; its counter is odd meanwhile, for those who read it."""
        counter = int.from_bytes(os.pread(self.board, COUNTER, 0), "little") | 1
        os.pwrite(self.board, counter.to_bytes(COUNTER, "little"), 0)
        os.pwrite(self.board, data, at)
        os.pwrite(self.board, ((counter + 1) % COUNTS).to_bytes(COUNTER, "little"), 0)

    def close(self) -> None:
        """Let go of the board."""
        os.close(self.board)
