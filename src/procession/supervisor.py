"""The supervisor: the one loop that owns a group, from its first process to its end.

Theory of operation. wait -> event -> `Lifecycle.handle` -> do. One epoll waits for the forkserver's
socket, the result pipes, the ranks' pidfds, and a descriptor by which other threads wake the loop;
its time-out is the next deadline, and without one it waits for ever: there is no polling. Every
source is turned into lifecycle events; what is to be done about them is the lifecycle's decision,
and this file only carries it out.

The loop runs in a thread of its own (`Group`), or in the main thread of the command.
"""

from __future__ import annotations

import itertools
import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping

from procession import lifecycle
from procession.ends import RankRecord, group_end
from procession.errors import GroupEnd
from procession.events import NO_FACTS, Event
from procession.exit import signal_name
from procession.facts import facts_of_group, facts_of_rank
from procession.forkserver import pool
from procession.forkserver.client import ForkServer
from procession.hangs import Hangs
from procession.journal import Journal
from procession.lastlook import LastLook
from procession.lifecycle import (
    Arm,
    Cancel,
    Deadline,
    DeadlineKind,
    Lifecycle,
    Phase,
    RankEvent,
    StopWanted,
    Sweep,
    Swept,
    WorkerEvent,
)
from procession.rankprocesses import Processes
from procession.recovery import Recovery
from procession.spawner import Spawner
from procession.spec import Spec
from procession.system.eventloop import EventLoop
from procession.system.latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.stacks.taking import Taken

LISTEN_EVERY = 32  # ranks that are asked for
DRAIN_SECONDS = 2.0
_sweeps = itertools.count(1)  # a forkserver goes from group to group: no two may be alike


class Supervisor:
    """Runs one group. `run` returns when it has ended, and `end` then says how."""

    def __init__(self, spec: Spec, spawner: Spawner, server: ForkServer) -> None:
        self.spec = spec
        self.end: GroupEnd | None = None
        self.notes: list[str] = []  # about the whole, for the report
        single = spec.restart.scope == "rank" and spec.restart.max > 0
        most = sys.maxsize if spec.restart.window is not None else spec.restart.max
        self.lifecycle = Lifecycle(
            spec.nproc, 0 if single else most, patient=spec.stop.patience != 0, single=single
        )
        self.journal = Journal(self._write_event)
        self.started = Latch()  # set when it has left its first phase, or has ended
        self.lost_server = ""
        self.drain_seconds: float | None = DRAIN_SECONDS
        self._spawner = spawner
        self._server = server
        self._stop_signal = int(spec.stop.signal)
        self._grace = spec.stop.grace
        self._grace_ends = math.inf  # in seconds of the monotonic clock, of this attempt
        self._patience = spec.stop.patience
        self._notice = spec.stop.notice
        self._subscribers: deque[Callable[[Event], None]] = deque()  # that are still to be told
        self._later: set[int] = set()  # ranks that start again, when their time has come
        self._sweep_asked = 0
        self._crashed = False
        self._stop_asked = False
        self._drained = False
        self._loop = EventLoop()
        try:
            self._ranks = Processes(
                spec,
                self.lifecycle,
                self._loop,
                server,
                self._handle,
                lambda rank: spawner.places.over_limit(self.records[rank].attempt, rank),
            )
            self._recovery = Recovery(spec, self.lifecycle, self._ranks, spawner)
            self._ranks.starts_again = self._recovery.starts_rank_again
        except BaseException:
            self._loop.close()
            raise
        run, board, streams = spawner.run_dir, spawner.board, spawner.streams
        self.last_look = LastLook(spec, self.lifecycle, self._loop, self._ranks, run)
        self._hangs = Hangs(
            spec,
            self.lifecycle,
            self._loop,
            self._ranks,
            board,
            streams,
            self.last_look,
            self._handle,
        )
        self._actions: deque[lifecycle.Action] = deque()  # the first one is being carried out
        self._loop.watch(server.fileno(), self._hear)

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Have the loop call `call` when `fd` can be read; in the loop's thread, as `unwatch`."""
        self._loop.watch(fd, call)

    def unwatch(self, fd: int) -> None:
        """Let the loop forget `fd`."""
        self._loop.forget(fd)

    @property
    def records(self) -> list[RankRecord]:
        """What was seen of each rank in the current attempt."""
        return self._ranks.records

    # -- from other threads

    def request_stop(
        self,
        *,
        kill: bool = False,
        number: int | None = None,
        grace: float | None = None,
        notice: float | None = None,
    ) -> None:
        """Ask for the end of the group; returns at once. May be called from any thread."""

        def take() -> None:
            self._stop_asked = True
            hurry = False
            if number is not None:
                hurry = number != self._stop_signal
                self._stop_signal = number
            if grace is not None:
                self._grace = grace
                hurry = hurry or time.monotonic() + grace < self._grace_ends
            if notice is not None:
                hurry = hurry or (not notice and self.lifecycle.waiting)  # it was given one
                self._notice = notice
            self._handle(StopWanted(kill=kill, hurry=hurry, notice=self._notice > 0))

        self._loop.request(take)

    def share_activity(self, elsewhere: int) -> int:
        """Take note of when ranks of other machines wrote last; gives when those of this one did.

        Both in nanoseconds of the monotonic clock, 0 for unknown. To be called first before the
        group is started; from any thread.
        """
        self._hangs.elsewhere = elsewhere
        return self._hangs.here

    def request_signal(self, rank: int, number: int, only_caught: bool = False) -> None:
        """Ask for a signal to one process, if it has a handler for it; from any thread."""

        def take() -> None:
            if not only_caught or self._ranks.catches(rank, number):
                self._ranks.send(rank, number)

        self._loop.request(take)

    def request_stacks(self, seconds: float, done: Callable[[list[Taken]], None]) -> bool:
        """Ask where the ranks are; from any thread. `done` is called in the loop's thread.

        False if the group is over.
        """
        return self._loop.request(lambda: self.last_look.look(seconds, done))

    def request_patience(self, seconds: float) -> None:
        """Ask that a failed group is ended in so many seconds; from any thread."""

        def take() -> None:
            self._patience = seconds
            if self.lifecycle.waiting:
                self._arm(Deadline(DeadlineKind.PATIENCE, self.lifecycle.attempt))

        self._loop.request(take)

    def subscribe(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event, the past ones first.

        In the loop's thread, or, when the group is over, in this one.
        """
        self._subscribers.append(call)
        if not self._loop.request(self._take_subscribers):
            self._take_subscribers()

    def _take_subscribers(self) -> None:
        while True:
            try:
                call = self._subscribers.popleft()
            except IndexError:
                return
            self.journal.subscribe(call)

    @property
    def stop_signal(self) -> int:
        """The signal by which ranks are, or were, asked to end."""
        return self._stop_signal

    @property
    def phase(self) -> Phase:
        """Where the group is in its life."""
        return Phase.FAILED if self._crashed else self.lifecycle.phase

    @property
    def kill_at(self) -> float | None:
        """When what is being ended gets SIGKILL, in seconds of the monotonic clock."""
        return self._grace_ends if math.isfinite(self._grace_ends) else None

    # -- the loop

    def run(self) -> None:
        """Run the group to its end. Leaves nothing open, whatever happens."""
        try:
            self._note_phase()
            self._do(self.lifecycle.begin())
            while not self.phase.final:
                self.journal.tell()
                self._loop.turn()
            self._conclude()
        except BaseException:
            self._crashed = True
            raise
        finally:
            self.close()

    # -- the lifecycle

    def _handle(self, event: lifecycle.Event) -> None:
        if isinstance(event, StopWanted):
            self.last_look.end_now()
        before = self.phase, self.lifecycle.attempt
        actions = self.lifecycle.handle(event)
        if isinstance(event, RankEvent):
            self._note_rank(event)
        if (self.phase, self.lifecycle.attempt) != before:
            self._note_phase()
        self._do(actions)

    def _do(self, actions: list[lifecycle.Action]) -> None:
        """Carry out actions in order; what they lead to comes after them."""
        self._actions += actions
        if len(self._actions) > len(actions) or not actions:
            return  # a call further up carries them out, or they wait for stacks
        self._carry_out()

    def _carry_out(self) -> None:
        """Carry out what is to be done, up to a signal that has to wait for stacks."""
        while self._actions:
            action = self._actions[0]
            if isinstance(action, lifecycle.Spawn):
                if action.rank is None:
                    self._spawn(action.attempt)
                else:
                    self._respawn(action.rank)
            elif isinstance(action, Cancel):
                self._cancel()
            elif isinstance(action, lifecycle.Signal):
                if self.last_look.hold(action, self._carry_out):
                    return
                number = signal.SIGKILL if action.kill else self._stop_signal
                self._signal(list(action.ranks), number)
            elif isinstance(action, Sweep):
                self._sweep(signal.SIGKILL if action.kill else self._stop_signal)
            elif isinstance(action, Arm):
                self._arm(action.deadline)
            self._actions.popleft()
        self.last_look.write()

    def _arm(self, deadline: Deadline) -> None:
        if deadline.kind is DeadlineKind.PATIENCE and self._patience is None:
            return  # until somebody asks
        if deadline.kind is DeadlineKind.GRACE:  # one deadline: it may only become shorter
            self._grace_ends = min(self._grace_ends, time.monotonic() + self._grace)
            left = self._grace_ends - time.monotonic()
            self._spawner.board.tell_stop(0.0, left, self._stop_signal)
        if deadline.kind is DeadlineKind.NOTICE:
            self._spawner.board.tell_stop(self._notice, self._notice + self._grace)
        delay = self._recovery.delay
        seconds = {
            DeadlineKind.PATIENCE: self._patience or 0.0,
            DeadlineKind.NOTICE: self._notice,
            DeadlineKind.BACKOFF: delay,
            DeadlineKind.START: self.spec.hang.start + (delay if self.lifecycle.single else 0.0),
            DeadlineKind.LINGER: min(self.spec.stop.linger, self._grace),
            DeadlineKind.GRACE: self._grace_ends - time.monotonic(),
            DeadlineKind.REAP: self.spec.stop.reap,
        }[deadline.kind]

        def fire() -> None:
            at = time.monotonic_ns()
            self._handle(Deadline(deadline.kind, deadline.attempt, at))
            if self.lifecycle.left_behind:
                for record in self.records:
                    if self.lifecycle.ranks[record.rank].state is lifecycle.Worker.LOST:
                        self._note("lost", record.rank, at)

        self._loop.after(deadline.kind, seconds, fire)

    # -- starting

    def _spawn(self, attempt: int) -> None:
        self._grace_ends = math.inf
        if attempt:
            self._spawner.board.forget()
        self._ranks.begin()
        self.last_look.begin()
        self._hangs.begin()
        try:
            if self._server.lost:
                self._renew_server()
            self._spawner.begin(self._server, attempt)
        except OSError as e:
            self._ranks.start_failed(0, "find a forkserver and a port", e)
        for rank, record in enumerate(self.records):
            if self.phase is not Phase.STARTING and not self.lifecycle.waiting:
                break
            try:
                record.reader = self._spawner.spawn(self._server, attempt, rank)
                record.asked = True
                if rank % LISTEN_EVERY == LISTEN_EVERY - 1:
                    self._hear()  # of many, the first may have failed before the last is asked for
            except OSError as e:
                self._ranks.start_failed(rank, "make its streams", e)
                break
        self._spawner.all_spawned(self._server, attempt)
        for rank, record in enumerate(self.records):
            if not record.asked and not record.start_fault:
                self._handle(RankEvent(WorkerEvent.CANCELLED, rank, time.monotonic_ns()))
        self._mind_queue()

    def _respawn(self, rank: int) -> None:
        """Start one rank again, when its time has come."""
        old = self._ranks.renew(rank)
        if old is not None:
            self._tell("tidy", old)

        def start() -> None:
            self._later.discard(rank)
            record = self.records[rank]
            self._spawner.board.forget(rank)
            try:
                record.reader = self._spawner.spawn(self._server, record.attempt, rank)
                record.asked = True
            except OSError as e:
                self._ranks.start_failed(rank, "make its streams", e)
            self._spawner.all_spawned(self._server, 0)
            self._mind_queue()

        self._later.add(rank)
        self._loop.after(("again", rank), self._recovery.delay, start)

    def _renew_server(self) -> None:
        """Start the next attempt under another forkserver than the one that was lost."""
        pool.discard(self._server)
        self._server = self._spawner.lease()
        self.lost_server = ""
        self._ranks.served_by(self._server)
        self._loop.watch(self._server.fileno(), self._hear)

    def _cancel(self) -> None:
        for rank in sorted(self._later):
            self._loop.cancel(("again", rank))
            self._cancelled([rank], time.monotonic_ns())
        self._later.clear()
        for message in self._server.drop_unsent():
            if message[0] == "spawn":
                ranks = [job["rank"] for job in message[1]]
                self._cancelled(ranks, time.monotonic_ns())
        if not self._server.lost:
            self._tell("cancel")

    def _cancelled(self, ranks: list[int], at: int) -> None:
        for rank in ranks:
            if self._ranks.lives(rank):
                self._handle(RankEvent(WorkerEvent.CANCELLED, rank, at))

    # -- ending

    def _signal(self, chosen: list[int], number: int) -> None:
        ranks = [r for r in chosen if self._ranks.lives(r)]  # it may have waited for stacks
        for rank in ranks:
            self.records[rank].signals |= {int(number)}
        if not self._server.lost:
            self._server.wake()
            self._tell("signal", int(number), ranks)
            if not self._server.lost:
                return
        for rank in ranks:
            self._ranks.send(rank, number)
            kind = WorkerEvent.KILL_SENT if number == signal.SIGKILL else WorkerEvent.STOP_SENT
            self._handle(RankEvent(kind, rank, time.monotonic_ns()))

    def _sweep(self, number: int) -> None:
        if self._server.lost:
            self._swept()
        else:
            self._server.wake()
            self._sweep_asked = next(_sweeps)
            self._tell("sweep", int(number), self._sweep_asked)

    def _swept(self) -> None:
        again = False
        if self._recovery.is_asked_for:
            self._spawner.streams.drain(DRAIN_SECONDS)  # a failure is also explained by it
            again = self._recovery.starts_group_again()
        self._handle(Swept(self.lifecycle.attempt, again))

    # -- the forkserver

    def _tell(self, *message: Any) -> None:
        self._server.send(message, [], [])
        self._mind_queue()

    def _mind_queue(self) -> None:
        self._loop.want_write(self._server.fileno(), self._server.waiting)

    def _hear(self) -> None:
        self._server.flush()
        for messages, fds in self._server.receive():
            for message in messages:
                self._heard_of(message, fds)
        if self._server.lost:
            self._server_lost()
        else:
            self._mind_queue()

    def _heard_of(self, message: Any, fds: list[int]) -> None:
        """Take one message of the forkserver, and its pidfd off `fds`."""
        kind, rest = message[0], message[1:]
        if kind == "spawned":
            rank, pid, at, sent = rest
            self._ranks.spawned(rank, pid, at, fds.pop(0) if sent >= 0 else -1)
        elif kind == "ready":
            if self._ranks.lives(rest[0]):
                self._handle(RankEvent(WorkerEvent.READY, rest[0], rest[1]))
        elif kind == "exited":
            self._ranks.exited(*rest)
        elif kind == "failed":
            rank, stage, errno, text, at = rest
            self._ranks.start_failed(rank, stage, OSError(errno, text), at)
        elif kind == "signalled":
            number, ranks, at = rest
            sent = WorkerEvent.KILL_SENT if number == signal.SIGKILL else WorkerEvent.STOP_SENT
            for rank in ranks:
                if self._ranks.lives(rank):
                    self._handle(RankEvent(sent, rank, at))
        elif kind == "cancelled":
            self._cancelled(*rest)
        elif kind == "swept":
            if rest[0] == self._sweep_asked:  # not an earlier one's answer, which came late
                self._swept()
        elif kind == "preloaded":
            if rest[0]:
                self._not_preloaded(rest[0])
        elif kind == "crashed":
            self.lost_server = str(rest[0])

    def _not_preloaded(self, why: str) -> None:
        import logging

        self._spawner.no_fork()
        said = f"{why}: each rank gets a fresh interpreter, and nothing is preloaded"
        self.notes.append(said)
        logging.getLogger("procession").warning("procession: %s", said)

    def _server_lost(self) -> None:
        self._loop.forget(self._server.fileno())
        self.lost_server = self.lost_server or "it was killed"
        self._ranks.orphaned()
        if self.phase is Phase.SWEEPING:
            self._swept()

    # -- what happened

    def _note_rank(self, event: RankEvent) -> None:
        record = self.records[event.rank]
        detail = ""
        if event.kind is WorkerEvent.EXITED:
            detail = str(record.exit)
        elif event.kind is WorkerEvent.SPAWN_FAILED and record.start_fault:
            detail = record.start_fault[2]
        elif event.kind is WorkerEvent.STOP_SENT:
            detail = signal_name(self._stop_signal)
        elif event.kind is WorkerEvent.HUNG:
            detail = record.hung
        elif event.kind is WorkerEvent.REPORTED and record.told is not None:
            detail = str(record.told.record.get("type", ""))
        facts = facts_of_rank(
            self.spec, self.lifecycle, event, record, self._stop_signal, bool(self.lost_server)
        )
        self._note(event.kind.name.lower(), event.rank, event.at, detail, facts)
        if self.lifecycle.ranks[event.rank].state is lifecycle.Worker.PENDING and record.exited_at:
            self._note("restarting", event.rank, time.monotonic_ns(), self._recovery.said)

    def _note(
        self, kind: str, rank: int, at: int, detail: str = "", facts: Mapping[str, Any] = NO_FACTS
    ) -> None:
        record = self.records[rank]
        self.journal.note(kind, rank, record.attempt, at, record.pid, detail, facts)

    def _note_phase(self) -> None:
        detail = self._recovery.said if self.phase is Phase.BACKOFF else ""
        facts = facts_of_group(
            self.spec, self.lifecycle, self.records, self._spawner, bool(self.lost_server)
        )
        self.journal.note(
            self.phase.name.lower(), None, self.lifecycle.attempt, detail=detail, facts=facts
        )
        if self.phase is Phase.RUNNING:
            self._recovery.running_since = time.monotonic_ns()
        if self.phase is not Phase.STARTING:
            self.started.set()

    def _write_event(self, event: Event) -> None:
        if self._spawner.run_dir.kept:
            self._spawner.run_dir.write_event(event.as_dict())

    def _drain(self) -> bool:
        """Show what is still to be shown; False if it was cut off, by the time or by a stop."""
        streams = self._spawner.streams
        if self.drain_seconds is not None:
            return streams.drain(self.drain_seconds)
        if self._stop_asked:
            return streams.drain(DRAIN_SECONDS)
        # The group is over: what happens to its forkserver now is no part of it.
        self._loop.forget(self._server.fileno())
        for kind in DeadlineKind:
            self._loop.cancel(kind)
        streams.finish(self._ask_drained)
        while not (self._drained or self._stop_asked):
            self._loop.turn()
        return streams.drain(DRAIN_SECONDS if self._drained else 0.0)

    def _ask_drained(self) -> None:
        self._loop.request(self._note_drained)

    def _note_drained(self) -> None:
        self._drained = True

    def _conclude(self) -> None:
        self.journal.tell()
        shown = self._drain()
        notes = [*self._recovery.notes, *self.notes]
        if not shown:
            notes.append("the console did not take all output in time; the rest was cut off")
        if self.lost_server:
            notes.append(
                f"the forkserver (pid {self._server.pid}) was lost ({self.lost_server}); its ranks "
                "were killed with it, and what they had started may be left"
            )
        if self.lifecycle.left_behind:
            notes.append(
                f"something did not go within {self.spec.stop.reap:g} s of SIGKILL, and was left"
            )
        if self._spawner.run_dir.fault:
            notes.append(self._spawner.run_dir.fault)
        self.end = group_end(
            self.spec,
            self.lifecycle,
            self.records,
            self._spawner,
            tuple(notes),
            forkserver_lost=bool(self.lost_server),
            stacks=self.last_look.stacks,
            stacks_file=self.last_look.file,
        )

    def close(self) -> None:
        """Give everything back; whatever is left of the group is killed with its forkserver."""
        self.last_look.close()
        self._ranks.close()
        clean = self.lifecycle.phase.final and not self.lifecycle.left_behind
        self._spawner.close(self._server, clean=clean)
        self._loop.close()
        self._take_subscribers()
        self.journal.wake()
