"""The processes of a group's ranks: those of the current attempt, and signals to them.

How they end, and what they report, is the matter of `exits`. What becomes of it is the lifecycle's
decision: it gets what happened, and when.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from procession.explain.records import HeldSignal, RankRecord, Sources
from procession.forkserver.client import ForkServer
from procession.rules.lifecycle import NOT_THERE_YET, Lifecycle
from procession.rules.messages import RankEvent
from procession.rules.tables import Worker, WorkerEvent
from procession.supervise.exits import Exits
from procession.system.processes import look_at
from procession.system.signals import signal_group


class Ranks:
    """The ranks of the current attempt, by number. For the loop's thread.

    exits: of these ranks. handle: takes what happens to one.
    """

    def __init__(self, life: Lifecycle, exits: Exits, handle: Callable[[RankEvent], None]) -> None:
        self._life = life
        self._handle = handle
        self._exits = exits
        self.lives = exits.lives
        self.exited = exits.exited
        self.begin = exits.begin
        self.close = exits.close
        self.let_exit = exits.let_exit

    @property
    def records(self) -> list[RankRecord]:
        """What was seen of each."""
        return self._exits.records

    @property
    def sources(self) -> list[Sources]:
        """Where news of each come from."""
        return self._exits.sources

    def has_now(self, rank: int, began: int) -> bool:
        """Whether a process of a rank is the one that it has now. began: as the forkserver told.

        A forkserver that stood still may tell of the former one when that was seen to be dead long
        ago, and the rank starts again.
        """
        return self.records[rank].started_at == began

    def renew(self, rank: int) -> None:
        """Expect a new process of one rank."""
        old = self.records[rank]
        self.records[rank] = RankRecord(rank, attempt=old.attempt + 1)
        self.sources[rank] = Sources()

    # -- signals

    def send(self, rank: int, number: int) -> None:
        """Send a signal to a rank's process, if there is one."""
        pidfd = self.sources[rank].pidfd
        if pidfd >= 0:
            try:
                signal.pidfd_send_signal(pidfd, number)
            except OSError:
                pass  # gone already

    def send_asked(self, rank: int, number: int, at: int, *, only_caught: bool = False) -> None:
        """Send a signal that was asked for at a time to the process that a rank had then.

        Where the forkserver has not told of it yet, it gets the signal when it has. only_caught: if
        it has a handler for it.
        """
        source, record = self.sources[rank], self.records[rank]
        if source.asked and record.pid is None:
            source.held += (HeldSignal(number, at, only_caught),)
        elif record.started_at <= at and (not only_caught or self.catches(rank, number)):
            self.send(rank, number)

    def signal_group(self, rank: int, number: int) -> bool:
        """Signal a rank's process group, as its forkserver does; False if it has no process."""
        pid = self.records[rank].pid
        if pid is None or not self.lives(rank):
            return False
        if self._keeps_its_number(rank, pid):
            self.records[rank].group_signalled = True
            try:
                signal_group(pid, number)
            except OSError:
                pass  # gone already
        return True

    def hold(self, number: int) -> None:
        """Send SIGSTOP or SIGCONT to the process group of every rank that lives."""
        for rank, record in enumerate(self.records):
            if record.pid is not None and self._keeps_its_number(rank, record.pid):
                try:
                    os.killpg(record.pid, number)
                except OSError:
                    pass  # gone already, or not yet in its session

    def _keeps_its_number(self, rank: int, pid: int) -> bool:
        """Whether a rank is not reaped yet, so that its pid is no other process's."""
        if self.sources[rank].pidfd >= 0:
            return not self._exits.is_reaped(rank)
        seen = look_at(pid)
        return seen is not None and seen.parent == self._exits.server.pid

    def catches(self, rank: int, number: int) -> bool:
        """Whether a rank's process has a handler for a signal."""
        from procession.system.processes import state_of

        pid = self.records[rank].pid
        state = state_of(pid) if pid is not None else None
        return state is not None and state.catches(number)

    # -- what happened to them

    def happened(self, kind: WorkerEvent, rank: int, at: int) -> None:
        """Take note of what happened to a rank, unless it is gone."""
        if self.lives(rank):
            self._handle(RankEvent(kind, rank, at))

    def spawned(self, rank: int, pid: int, at: int, pidfd: int) -> None:
        """Take note of a new process; pidfd: -1 if none could be had."""
        if not self.lives(rank):  # it was called back, which its forkserver heard too late
            if pidfd >= 0:
                try:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                except OSError:
                    pass  # gone already
                os.close(pidfd)
            return
        record = self.records[rank]
        record.pid, record.started_at = pid, at
        self._exits.watch(rank, pidfd)
        self._handle(RankEvent(WorkerEvent.SPAWNED, rank, at))
        held, self.sources[rank].held = self.sources[rank].held, ()
        for each in held:
            self.send_asked(rank, each.number, each.at, only_caught=each.only_caught)

    def start_failed(
        self, rank: int, stage: str, e: OSError, at: int | None = None, *, gone: bool = True
    ) -> None:
        """Take note of a rank that could not be started: in doing what, and when (None: now).

        gone: it has no process.
        """
        if self.lives(rank):
            self.records[rank].start_fault = (stage, e.errno or 0, e.strerror or str(e))
            at = time.monotonic_ns() if at is None else at
            kind = WorkerEvent.SPAWN_FAILED if gone else WorkerEvent.START_DEADLINE
            self._handle(RankEvent(kind, rank, at, ok=False))

    def starting(self) -> list[int]:
        """Give the ranks that were asked for, and are not in their program yet."""
        each = zip(self._life.ranks, self.sources, strict=True)
        return [r for r, (k, s) in enumerate(each) if s.asked and k.state in NOT_THERE_YET]

    # -- their forkserver

    def served_by(self, server: ForkServer) -> None:
        """Take note that another forkserver starts them from now on."""
        self._exits.served_by(server)

    def orphaned(self, why: str) -> None:
        """Take note that the forkserver is lost: the ranks get their parent-death signal.

        Those that have no process yet will never have one.
        """
        self._exits.hurry()
        for rank, source in enumerate(self.sources):
            if self._life.ranks[rank].state is Worker.PENDING:
                self.start_failed(rank, "start", OSError(0, f"its forkserver is gone ({why})"))
            elif source.pidfd < 0:
                self.exited(rank, None, None, None, time.monotonic_ns())
