"""The processes of a group's ranks: what they tell, when they die, and with which exit status.

Exits are told by the forkserver, which reaps; the pidfds tell of a death also when the forkserver
cannot, and by them ranks are ended when it is lost. What becomes of it is the lifecycle's decision:
this file only tells it what happened, and when.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from procession import lifecycle
from procession.ends import RankRecord, Silence
from procession.exit import Exit
from procession.forkserver.client import ForkServer
from procession.lifecycle import Lifecycle, RankEvent, WorkerEvent
from procession.results import Told
from procession.spec import Function, Spec
from procession.system.deaths import MOMENT, Deaths
from procession.system.eventloop import EventLoop
from procession.system.memory import OomWatch

SILENT_NS = 1_000_000_000  # from the end of a result pipe to that of its process, at the most
STATUS_SECONDS = 30.0  # for the forkserver to tell the status of a rank that is seen to be dead


class Processes:
    """The processes of the current attempt, by rank.

    records: what was seen of each. handle: takes what happened to one. over_limit: tells whether
    the kernel killed one at its own limit of memory. starts_again: to be set: tells whether a
    single rank that failed (its number, when, and whether its exit is a good one) starts again.
    """

    def __init__(
        self,
        spec: Spec,
        life: Lifecycle,
        loop: EventLoop,
        server: ForkServer,
        handle: Callable[[RankEvent], None],
        over_limit: Callable[[int], bool],
    ) -> None:
        self.records: list[RankRecord] = []
        self._spec = spec
        self._life = life
        self._loop = loop
        self._server = server
        self._handle = handle
        self.starts_again: Callable[[int, int, bool], bool] | None = None
        self._over_limit = over_limit
        self._heard_at = 0  # the latest time that a report told
        self._oom = OomWatch()
        self._deaths = Deaths(loop, self._seen_dead)

    def begin(self) -> None:
        """Forget those of the attempt before, and expect new ones."""
        if self.records:
            self._oom = OomWatch()
            self._forget_all()
        attempt = self._life.attempt
        self.records = [RankRecord(rank, attempt=attempt) for rank in range(self._spec.nproc)]

    def renew(self, rank: int) -> int | None:
        """Expect a new process of one rank; gives the process that it had."""
        old = self.records[rank]
        self.records[rank] = RankRecord(rank, attempt=old.attempt + 1)
        return old.pid

    @property
    def server_lost(self) -> bool:
        """Whether nobody can start or reap them any more."""
        return self._server.lost

    def lives(self, rank: int) -> bool:
        """Whether a rank is not gone yet, or has still to be started."""
        return self._life.ranks[rank].state not in lifecycle.GONE

    def served_by(self, server: ForkServer) -> None:
        """Take note that another forkserver starts them from now on."""
        self._server = server
        self._deaths.moment = MOMENT

    def send(self, rank: int, number: int) -> None:
        """Send a signal to a rank's process, if there is one."""
        pidfd = self.records[rank].pidfd
        if pidfd >= 0:
            try:
                signal.pidfd_send_signal(pidfd, number)
            except OSError:
                pass  # gone already

    def catches(self, rank: int, number: int) -> bool:
        """Whether a rank's process has a handler for a signal."""
        from procession.system.procstate import state_of

        pid = self.records[rank].pid
        state = state_of(pid) if pid is not None else None
        return state is not None and state.catches(number)

    # -- what the forkserver tells

    def spawned(self, rank: int, pid: int, at: int, pidfd: int) -> None:
        """Take note of a new process; pidfd: -1 if none could be had."""
        record = self.records[rank]
        record.pid, record.started_at = pid, at
        if record.reader is not None:  # not before: nobody reports who was not spawned
            self._loop.watch(record.reader.fd, lambda: self._read_result(rank))
        if pidfd >= 0:
            record.pidfd = pidfd
            self._deaths.watch(pidfd, rank)
        self._handle(RankEvent(WorkerEvent.SPAWNED, rank, at))

    def exited(
        self, rank: int, status: int | None, cpu: float | None, peak: int | None, at: int
    ) -> None:
        """Take note of an exit; status, CPU seconds and peak memory are None if not known."""
        record = self.records[rank]
        self._loop.cancel(("status", rank))
        if not self.lives(rank):
            return
        record.exit = Exit() if status is None else Exit.from_wait_status(status)
        record.cpu_seconds, record.peak_memory, record.exited_at = cpu, peak, at
        ours = self._life.ranks[rank].state is lifecycle.Worker.KILLING
        if record.exit.signal == signal.SIGKILL and not ours:
            record.over_limit = self._over_limit(rank)
            record.out_of_memory = record.over_limit or self._oom.verdict(peak)
        self._read_result(rank, everything=True)
        self._forget(record)  # from here on it is over
        ok = record.exit.ok
        if isinstance(self._spec.program, Function):
            ok = ok and record.told is not None and record.told.good
        if not ok:
            record.exited_at = at = self._death_of(record, at)
        again = self.starts_again is not None and self.starts_again(rank, at, ok)
        self._handle(RankEvent(WorkerEvent.EXITED, rank, at, ok, again))

    def orphaned(self) -> None:
        """Take note that the forkserver is lost: the ranks get their parent-death signal.

        Those that have no process yet will never have one.
        """
        self._deaths.moment = 0.0  # there is no other way to hear of a death any more
        for rank, record in enumerate(self.records):
            state = self._life.ranks[rank].state
            if state is lifecycle.Worker.PENDING:
                self.start_failed(rank, "start", OSError(0, "its forkserver is gone"))
            elif record.pidfd < 0 and self.lives(rank):
                self.exited(rank, None, None, None, time.monotonic_ns())

    def start_failed(self, rank: int, stage: str, e: OSError, at: int | None = None) -> None:
        """Take note of a rank that could not be started: in doing what, and when (None: now)."""
        self.records[rank].start_fault = (stage, e.errno or 0, e.strerror or str(e))
        at = time.monotonic_ns() if at is None else at
        self._handle(RankEvent(WorkerEvent.SPAWN_FAILED, rank, at, ok=False))

    # -- what they tell, and their deaths

    def _seen_dead(self, rank: int) -> None:
        """A pidfd says that a rank is dead; its status comes from the forkserver."""
        seconds = 0.0 if self._server.lost else STATUS_SECONDS
        at = time.monotonic_ns()

        def nobody_told() -> None:
            if self.lives(rank):
                self.exited(rank, None, None, None, at)

        if self.lives(rank):
            self._server.wake()
            self._loop.after(("status", rank), seconds, nobody_told)

    def _read_result(self, rank: int, everything: bool = False) -> None:
        record = self.records[rank]
        if record.reader is None:
            return
        news = record.reader.read(everything)
        if record.reader.ended:
            self._loop.forget(record.reader.fd)
            # The result pipe of a command is nobody's: its end tells nothing.
            if (
                self._spec.runs_python(rank)
                and record.reader.told is None
                and record.silent is None
            ):
                after, seen = max(self._loop.looked_before, self._heard_at), self._loop.looked
                record.silent = Silence(after, seen, seen)
        if news:
            first = record.told is None
            record.told = told = record.reader.told
            if told is not None and first and self.lives(rank):
                self._heard(told)
                self._handle(RankEvent(WorkerEvent.REPORTED, rank, told.at, told.good))

    def _heard(self, told: Told) -> None:
        """Take note of the time of a report: silent ends that were seen before it came before it.

        A rank that dies without a word wakes its peers, which raise, and stamp that, before it is a
        zombie that can be reaped. But its result pipe ends first of all, and epoll tells in order.
        """
        self._heard_at = max(self._heard_at, told.at)
        for record in self.records:
            silent = record.silent
            if silent is not None and silent.after < told.at <= silent.until:
                silent.until = told.at - 1

    def _death_of(self, record: RankRecord, at: int) -> int:
        """Say when a rank died that was reaped `at`, from what its result pipe shows."""
        silent = record.silent
        if silent is None or record.exit.signal in record.signals or at - silent.seen > SILENT_NS:
            return at
        for other in range(len(self.records)):  # what they have said until now
            if other != record.rank and self.lives(other):
                self._read_result(other)
        return min(at, silent.until)

    def _forget(self, record: RankRecord) -> None:
        if record.pidfd >= 0:
            self._deaths.forget(record.pidfd)
            os.close(record.pidfd)
            record.pidfd = -1
        if record.reader is not None and record.reader.fd >= 0:
            record.torn = record.reader.torn
            self._loop.forget(record.reader.fd)
            record.reader.close()

    def _forget_all(self) -> None:
        for record in self.records:
            self._forget(record)

    def close(self) -> None:
        """Close all descriptors."""
        self._forget_all()
        self._deaths.close()
