"""Where the ranks of a session that a launcher has started meet: a thread of rank 0.

Theory of operation. Rank 0 listens at an abstract socket, so that no file is left. Its name is made
of variables that the launcher gives to all ranks. Only processes of the same user may connect. All
ranks run the same items one after the other, and report here when they are done with one; rank 0
goes on first, and says whether the others go on, too. A thread serves them, because rank 0 runs
tests as well: while it waits for the others in a collective, their messages must be read.

No rank can be ended alone: if a rank has failed or was lost and others wait for it, or the time is
over, the only way is to end the session, which the launcher notices. So is it if the launcher ends
this process (SIGTERM) while it runs a test: the thread hears of that by the descriptor that Python
wakes up, also while the main thread waits in native code.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import signal
import socket
import threading
import time
from functools import partial

import pytest

from procession.pytest.wire import Line, pair
from procession.values.ranks import format_ranks
from procession.warm.wire import peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from procession.pytest.place import Place

    Told = dict[str, Any]
    # What came of the test, the pids of ranks that are not at its end, and why it is given up.
    GiveUp = Callable[[Told, dict[int, int], str], None]

ALL_THERE = 120.0  # seconds that the ranks may take to begin, and to collect the tests
ENDED = "the launcher has ended this session (SIGTERM)"
AFTER_SIGTERM = 0.5  # seconds in which rank 0 can come to the end of its test by itself
AFTER_FAILURE = 20.0  # seconds that others have to end a test that failed in a rank
PAUSE = 0.05  # seconds between two attempts to meet


class NotTogether(Exception):
    """The ranks do not come together."""


def _address(place: Place) -> str:
    digest = hashlib.sha256(place.name.encode()).hexdigest()[:32]
    return f"\0procession-pytest-{os.getuid()}-{digest}"


def joined(place: Place) -> Line:
    """Join the others as a rank that is not rank 0. Raises NotTogether."""
    deadline = time.monotonic() + ALL_THERE
    while True:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(_address(place))
            if peer_of(peer)[1] == os.getuid():
                line = Line(peer)
                line.send(("rank", place.number))
                return line
        except OSError:
            pass
        peer.close()
        if time.monotonic() > deadline:
            raise NotTogether(f"rank 0 has not been there for {ALL_THERE:g} s")
        time.sleep(PAUSE)


class Hub:
    """The meeting place. own: the line of rank 0 itself. pids: of all ranks.

    alone: whether rank 0 runs a test of its own; a SIGTERM fails that.
    """

    def __init__(self, place: Place) -> None:
        self._size = place.size
        self._door = socket.socket(socket.AF_UNIX)
        try:
            self._door.bind(_address(place))
        except OSError as e:
            self._door.close()
            raise NotTogether(f"somebody else is rank 0 of the same run: {e}") from None
        self._door.listen(place.size)
        self._lines: dict[int, Line] = {}
        self.pids = {0: os.getpid()}
        self.alone = False
        self._signals, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._heeds_end = self._giving_up = False
        self._ends_at: float | None = None
        self._changed = threading.Condition()
        self._gathering: dict[int, bytes] = {}
        self._lost: int | None = None
        self._lost_at = 0
        self._limit: float | None = None
        self._give_up: GiveUp = lambda _came, _waiting, _said: None
        self._begin(place.size)
        self.own, theirs = pair()
        self._gather_all(theirs)
        self._thread = threading.Thread(target=self._serve, name="procession-hub", daemon=True)
        self._thread.start()

    def _gather_all(self, own: Line) -> None:
        """Wait for all ranks. Raises NotTogether."""
        self._lines[0] = own
        deadline = time.monotonic() + ALL_THERE
        while len(self._lines) < self._size:
            self._door.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                peer, _ = self._door.accept()
            except TimeoutError:
                raise NotTogether(
                    f"{len(self._lines)} of {self._size} ranks came within {ALL_THERE:g} s"
                ) from None
            peer.settimeout(None)
            pid, uid = peer_of(peer)
            if uid != os.getuid():
                peer.close()
                continue
            line = Line(peer)
            number = line.receive()[1]
            self._lines[number], self.pids[number] = line, pid
        self._door.close()

    def _begin(self, members: int) -> None:
        self._members = members
        self._began = time.monotonic()
        self._begun = False  # others may be ahead of rank 0, which says how many run a test
        self._ranks: list[Told] = [
            {"reports": [], "done": False, "failed_at": 0, "left": []} for _ in range(self._size)
        ]
        self._failed_at: float | None = None

    # -- what rank 0 does

    def begin(self, members: int, timeout: float, give_up: GiveUp) -> None:
        """A test begins. members: how many ranks run it. give_up: when others do not end."""
        with self._changed:
            self._members = members
            self._begun = True
            self._began = time.monotonic()
            self._limit = time.monotonic() + timeout if timeout else None
            self._give_up = give_up
            self._answer_gathering()

    def came(self) -> Told:
        """Wait until all ranks are done; gives what they have reported."""
        with self._changed:
            self._changed.wait_for(self._is_over)
            came = self._told(timeout=False)
            self._limit = None
            self._begin(self._size)
            return came

    def _is_over(self) -> bool:
        """Whether all ranks are done, or rank 0 is and another one was lost."""
        if self._giving_up:
            return False  # another thread ends this process
        who = self._ranks if self._lost is None else self._ranks[:1]
        return all(told["done"] for told in who)

    def _told(self, timeout: bool) -> Told:
        if self._lost is not None:
            told = self._ranks[self._lost]
            told["crash"], told["crashed_at"] = "has ended", self._lost_at
        ranks = self._ranks[: self._members]
        took = time.monotonic() - self._began
        return {"ranks": ranks, "timeout": timeout, "lingered": False, "left": [], "took": took}

    def release(self, word: Any) -> None:
        """Let the others go on, and say something to them."""
        for rank, line in self._lines.items():
            if rank:
                try:
                    line.send(word)
                except OSError:
                    pass  # it is gone, which is seen elsewhere

    @property
    def why_over(self) -> str:
        """Why the session cannot go on, "" if it can."""
        lost = "" if self._lost is None else f"rank {self._lost} has ended"
        told = "" if self._ends_at is None else ENDED
        return "; ".join(filter(None, (told, lost)))

    def end_with_report(self) -> None:
        """From now on, have SIGTERM end the session with a report; from the main thread."""
        signal.signal(signal.SIGTERM, self._wake_up)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._heeds_end = True

    def _wake_up(self, number: int, _frame: object) -> None:
        os.write(self._wake, bytes([number]))  # a test may have taken `set_wakeup_fd` for itself
        if self.alone:
            self.alone = False
            pytest.fail(ENDED, pytrace=False)

    def reported(self) -> None:
        """The report is being written: from now on, SIGTERM has no effect."""
        with self._changed:
            self._heeds_end = False

    # -- the thread

    def _serve(self) -> None:
        with selectors.DefaultSelector() as select:
            for rank, line in self._lines.items():
                select.register(line, selectors.EVENT_READ, partial(self._hear, rank))
            heard = len(self._lines)
            select.register(self._signals, selectors.EVENT_READ, self._hear_signals)
            while heard:
                for key, _ in select.select(1.0 if self._ends_at is None else 0.1):
                    if not key.data():
                        select.unregister(key.fileobj)
                        heard -= 1
                self._look_at_clock()

    def _hear_signals(self) -> bool:
        if signal.SIGTERM in os.read(self._signals, 4096):
            with self._changed:
                heeded, self._heeds_end = self._heeds_end, False
                if heeded:
                    self._ends_at = time.monotonic() + AFTER_SIGTERM
        return True

    def _look_at_clock(self) -> None:
        now, late = time.monotonic(), False
        with self._changed:
            undone = [r for r in range(self._members) if not self._ranks[r]["done"]]
            if not undone or self._giving_up:
                return
            if self._failed_at is not None and now > self._failed_at + AFTER_FAILURE:
                said = f"had not ended {AFTER_FAILURE:g} s after another had failed"
            elif self._limit is not None and now > self._limit:
                said = "had not ended in time"
                late = True
            elif self._begun and self._ends_at is not None and now > self._ends_at:
                said = "had not ended when the launcher ended this session (SIGTERM)"
            else:
                return
            self._giving_up = True
            came = self._told(timeout=late)
            waiting = {rank: self.pids[rank] for rank in undone if rank != self._lost}
        self._give_up(came, waiting, f"{format_ranks(undone)} {said}")

    def _hear(self, rank: int) -> bool:
        messages, open_ = self._lines[rank].arrived()
        with self._changed:
            for kind, value in messages:
                self._take(rank, kind, value)
            if not open_ and rank and self._lost is None:
                self._lost, self._lost_at = rank, time.monotonic_ns()
                self._failed_at = self._failed_at or time.monotonic()
                self._answer_gathering()
            self._changed.notify_all()
        return open_

    def _take(self, rank: int, kind: str, value: Any) -> None:
        told = self._ranks[rank]
        if kind == "report":
            told["reports"].append(value)
        elif kind == "failed":
            told["failed_at"] = value
            self._failed_at = self._failed_at or time.monotonic()
        elif kind == "done":
            told["done"] = True
            self._answer_gathering()
        elif kind == "gather":
            self._gathering[rank] = value
            self._answer_gathering()
        else:
            told[kind] = value

    def _answer_gathering(self) -> None:
        if not self._begun:
            return
        waiting = self._gathering
        done = [r for r in range(self._members) if self._ranks[r]["done"] or r == self._lost]
        if len(waiting) == self._members:
            answer: Any = [waiting[rank] for rank in range(self._members)]
        elif waiting and done:
            answer = f"rank {done[0]} has ended its test without gather"
        else:
            return
        self._gathering = {}
        for rank in waiting:
            try:
                self._lines[rank].send(answer)
            except OSError:
                pass  # it is gone, which is seen elsewhere

    def close(self) -> None:
        """Let all go."""
        self.own.close()
        for line in self._lines.values():  # they may wait for a word of this rank
            with contextlib.suppress(OSError):
                line.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        for line in self._lines.values():
            line.close()
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(self._signals)
        os.close(self._wake)
