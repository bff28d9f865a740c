"""What is done for a group whose agent is gone: killed, or it did not answer.

Theory of operation. The kernel has sent the ranks SIGKILL, their parent-death signal. What they
have started is found by the mark of the launcher in /proc (`system.remains`), and killed. The rules
go on in the launcher's own lifecycle, which has been in step with the agent's.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from procession.agent import client
from procession.agent.client import Agent
from procession.machine.ranks import Ranks
from procession.rules.messages import (
    Action,
    Arm,
    Cancel,
    Deadline,
    Event,
    RankEvent,
    StopWanted,
    Sweep,
    Swept,
)
from procession.rules.tables import GONE, DeadlineKind, Phase, Worker, WorkerEvent
from procession.system.identity import own_mark
from procession.system.remains import Remains
from procession.values.base import Record
from procession.values.errors import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    Fault = tuple[str, int, str]

LOOK_EVERY = 0.02  # seconds between two looks for what is left
KILLED = int(signal.SIGKILL)  # the wait status of who died of it


class Orphans(Record):
    """The end of an attempt without its agent. For the loop's thread. handle: takes events."""

    _ranks: Ranks
    _server: Agent
    _handle: Callable[[Event], None]
    _remains: Remains | None = None

    def take_over(self, fault: Fault, *, killed: bool, stop_asked: int, late: bool) -> None:
        """Take the ranks for gone. fault: of those that have no process; see `RankRecord`.

        killed: they were, with their agent, by us. stop_asked: when that was asked to end them, in
        nanoseconds of the monotonic clock, 0 for never; it may not have heard of it. late: they
        were to be in their program by now.
        """
        now, life, records = time.monotonic_ns(), self._ranks.life, self._ranks.records
        # Of some it is known how they died: the kernel has shown it, or the agent has told of it,
        # and asked whether they start again.
        died: dict[int, tuple[int, int | None]] = dict(self._ranks.untold)
        died |= {r: (records[r].exited_at, None) for r, k in enumerate(life.ranks) if k.awaited}
        if late:
            self._handle(Deadline(DeadlineKind.START, life.attempt, now))
        if stop_asked and not life.stop_wanted:
            self._handle(StopWanted(kill=True))
        ours = stop_asked or now if killed else 0
        early = sorted((at, rank) for rank, (at, _) in died.items())
        others = [rank for rank in range(life.nproc) if rank not in died]
        for at, rank in (*early, *((now, rank) for rank in others)):
            known = life.ranks[rank]
            known.awaited = False
            if known.state is Worker.PENDING:
                self._never_starts(rank, fault, now)
            elif known.state not in GONE:
                if ours and ours <= at:
                    self._handle(RankEvent(WorkerEvent.KILL_SENT, rank, ours))
                self._gone(rank, at, died.get(rank, (0, KILLED if killed else None))[1])

        if life.phase is Phase.SWEEPING:
            self._sweep()
        # The deadlines of the agent are lost with it.
        for kind in DeadlineKind:
            self._arm(Deadline(kind, life.attempt))

    def _never_starts(self, rank: int, fault: Fault, at: int) -> None:
        if self._ranks.life.stop_wanted or self._ranks.life.failures:
            self._handle(RankEvent(WorkerEvent.CANCELLED, rank, at))
            return
        self._ranks.records[rank].start_fault = fault
        self._handle(RankEvent(WorkerEvent.SPAWN_FAILED, rank, at, ok=False))

    def _gone(self, rank: int, at: int, status: int | None) -> None:
        self._ranks.forget(rank)
        record = self._ranks.records[rank]
        record.exited_at = at
        if status is not None:
            record.exit = Exit.from_wait_status(status)
        self._handle(RankEvent(WorkerEvent.EXITED, rank, at, ok=False))

    def carry_out(self, action: Action) -> None:
        """Carry out an action of the rules."""
        if isinstance(action, Sweep):
            self._sweep()
        elif isinstance(action, Cancel):
            at = time.monotonic_ns()
            for rank, known in enumerate(self._ranks.life.ranks):
                if known.state is Worker.PENDING:
                    self._handle(RankEvent(WorkerEvent.CANCELLED, rank, at))
        elif isinstance(action, Arm):
            self._arm(action.deadline)

    def _arm(self, deadline: Deadline) -> None:
        seconds = {
            DeadlineKind.GRACE: 0.0,  # everything gets SIGKILL at once
            DeadlineKind.REAP: self._ranks.spec.stop.reap,
        }.get(deadline.kind)
        if seconds is not None:
            self._ranks.loop.after(deadline.kind, seconds, lambda: self._fire(deadline))

    def _fire(self, deadline: Deadline) -> None:
        self._handle(Deadline(deadline.kind, deadline.attempt, time.monotonic_ns(), deadline.rank))

    def _sweep(self) -> None:
        if self._remains is None:
            server = self._server
            # Of a rank that the agent has reaped, another process may have the number by now.
            reaped = {r.pid for r in self._ranks.records if r.cpu_seconds is not None}
            reused = {pid for pid in reaped if os.path.exists(f"/proc/{pid}")}
            sessions = {r.pid for r in self._ranks.records if r.pid is not None} - reused
            self._remains = Remains(server.pid, server.began, own_mark(), server.page, sessions)
            self._look_at_processes()

    def _look_at_processes(self) -> None:
        assert self._remains is not None
        with client.starting():
            left = self._remains.find(client.others_than(self._server))
        self._remains.kill(left)
        if not self._remains.over:
            self._ranks.loop.after(self._look_at_processes, LOOK_EVERY, self._look_at_processes)
            return
        self._handle(Swept(self._ranks.life.attempt))

    def close(self) -> None:
        """Do nothing any more."""
        self._ranks.loop.cancel(self._look_at_processes)
        for kind in DeadlineKind:
            self._ranks.loop.cancel(kind)
