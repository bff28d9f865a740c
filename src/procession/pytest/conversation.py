"""What the ranks of one test say, heard until all of them are done with it.

The ranks are those of a launcher (`launched`), or of a group of ours (`grouptalk`).
"""

from __future__ import annotations

import selectors
import time
from functools import partial

from procession.pytest.talk import HUNG_UP, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from typing import Any

    Told = dict[str, Any]

LONGEST_WAIT = 3600.0  # seconds that a selector is asked for; the kernel takes 24 days at most


class Conversation:
    """The messages of the ranks of one test.

    lines: to the ranks that are there, by number. request: what they are asked to run.
    """

    PATIENCE: float  # seconds that the others have after the first failure
    LOST: float  # seconds that they have when a rank is gone
    GONE: str  # what is said of it

    def __init__(self, lines: dict[int, Connection], request: Told) -> None:
        self._lines = lines
        self._began = time.monotonic()
        self._size: int = request["nproc"]
        self._ranks: list[Told] = [
            {"reports": [], "done": False, "failed": False, "left": []} for _ in range(self._size)
        ]
        self._came: Told = {"ranks": self._ranks, "over": "", "left": []}
        self._gathering: dict[int, bytes] = {}
        self._select = selectors.DefaultSelector()
        limit: float = request["timeout"]
        self._deadline = self._began + limit if limit else None
        self._late = f"the test had not ended after {limit:g} s"  # what that means
        self._end_others_at: float | None = None
        self._paused = False  # no time is counted

    def held(self) -> Told:
        """Hear all ranks to their end; gives what came of it."""
        try:
            self._begin_listening()
            for rank in list(self._lines):
                self._listen_to(rank)
            while not self._is_over():
                self._look_at_clock()
                self._hear_some(self._seconds_left())
            self._conclude()
            return {**self._came, "took": time.monotonic() - self._began}
        finally:
            self._select.close()

    # -- what differs

    def _begin_listening(self) -> None:
        """Listen to others than ranks."""

    def _is_over(self) -> bool:
        raise NotImplementedError

    def _end(self, late: str) -> None:
        """End the ranks. late: why their time is over, "" if that of those beside a failure is."""
        raise NotImplementedError

    def _conclude(self) -> None:
        """Note in `_came` what came of the test, beside what the ranks have said."""
        raise NotImplementedError

    # -- what is heard

    def _hear_some(self, seconds: float | None) -> None:
        for key, _ in self._select.select(seconds):
            key.data()

    def _listen_to(self, rank: int) -> None:
        self._select.register(
            self._lines[rank], selectors.EVENT_READ, partial(self._hear_rank, rank)
        )

    def _hear_rank(self, rank: int) -> None:
        line = self._lines.get(rank)
        if line is None:
            return
        try:
            said = line.recv()
        except HUNG_UP:
            self._select.unregister(line)
            del self._lines[rank]
            line.close()
            if not (self._ranks[rank]["done"] or self._paused):
                self._ranks[rank].update(crash=self.GONE, crashed_at=time.monotonic_ns())
                self._end_others_in(self.LOST)
                self._answer_gathering()
        else:
            self._take_message(rank, *said)

    def _take_message(self, rank: int, kind: str, value: Any) -> None:
        told = self._ranks[rank]
        if kind == "report":
            told["reports"].append(value)
            if value.get("outcome") == "failed" or "exit" in value or "interrupt" in value:
                told["failed"] = True
                self._end_others_in(self.PATIENCE)
        elif kind == "done":
            told.update(value, done=True)
            self._answer_gathering()
        elif kind == "gather":
            self._gathering[rank] = value
            self._answer_gathering()

    def _reply(self, rank: int, answer: Any) -> None:
        if rank in self._lines:
            say(self._lines[rank], answer)

    def _answer_gathering(self) -> None:
        waiting = self._gathering
        done = [rank for rank in range(self._size) if self._is_done(rank)]
        if len(waiting) == self._size:
            answer: Any = [waiting[rank] for rank in range(self._size)]
        elif waiting and done:
            answer = f"rank {done[0]} has ended its test without gather"
        else:
            return
        self._gathering = {}
        for rank in waiting:
            self._reply(rank, answer)

    def _is_done(self, rank: int) -> bool:
        return self._ranks[rank]["done"]

    # -- the clock

    def _end_others_in(self, seconds: float) -> None:
        if self._end_others_at is None:
            self._end_others_at = time.monotonic() + seconds

    def _seconds_left(self) -> float | None:
        ends = [at for at in (self._deadline, self._end_others_at) if at is not None]
        if self._paused or not ends:
            return None
        return min(max(0.0, min(ends) - time.monotonic()), LONGEST_WAIT)

    def _look_at_clock(self) -> None:
        if self._paused:
            return
        now = time.monotonic()
        if self._end_others_at is not None and now >= self._end_others_at:
            self._end("")
        elif self._deadline is not None and now >= self._deadline:
            self._end(self._late)
