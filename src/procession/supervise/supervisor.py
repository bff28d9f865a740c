"""The supervisor: the one loop that owns a group, from its first process to its end.

Theory of operation. wait -> event -> `Lifecycle.handle` -> do. One epoll waits for the forkserver's
socket, outcome channels, pidfds, and a descriptor by which other threads wake the loop; its
time-out is the next deadline, a second at most, and without one it waits for ever. Every source is
turned into lifecycle events; what is to be done about them is the lifecycle's decision, carried out
here.

Nothing keeps the loop from ending ranks: it acts first, and what may hang (files, and the code of
users) is done afterwards, by threads (`journal`, `starting`, `recovery`).

The loop runs in a thread of its own (`Group`), or in the main thread of the command.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping

from procession.explain.facts import facts_of_failure, facts_of_rank, facts_of_start
from procession.explain.records import RankRecord
from procession.forkserver import pool
from procession.forkserver.client import ForkServer
from procession.prepare.jobs import RankJobs
from procession.rules import messages
from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import (
    Arm,
    Cancel,
    Deadline,
    RankEvent,
    StopWanted,
    Sweep,
    Swept,
)
from procession.rules.tables import DeadlineKind, Phase, Worker, WorkerEvent
from procession.supervise.conclusion import DRAIN_SECONDS, Conclusion, Outcomes
from procession.supervise.exits import Exits
from procession.supervise.journal import Journal
from procession.supervise.lastlook import LastLook
from procession.supervise.limits import NEVER, Limits
from procession.supervise.link import Link
from procession.supervise.ranks import Ranks
from procession.supervise.recovery import Recovery
from procession.supervise.starting import Starts
from procession.system.eventloop import EventLoop
from procession.system.threads import Latch
from procession.values.errors import GroupEnd
from procession.values.events import NO_FACTS, Event
from procession.values.policy import StopRequest
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.explain.stacks.taking import Taken
    from procession.supervise.hangs import Hangs

EVENTS_OF_A_LIFE = 10  # of one rank
KINDS = {kind: kind.name.lower() for kind in WorkerEvent}  # what their events are called


class Supervisor:
    """Runs one group. `run` returns when it has ended, and `end` then says how.

    Its parts that others look at: lifecycle, journal, outcomes, last_look; started: set when the
    group has left its first phase, or has ended. To be set up before the group is started: limits,
    hangs, recovery, conclusion.
    """

    def __init__(self, spec: Spec, jobs: RankJobs, server: ForkServer) -> None:
        self.spec = spec
        self.end: GroupEnd | None = None
        self.notes: list[str] = []  # about the whole, for the report
        single = spec.restart.single
        most = sys.maxsize if spec.restart.window is not None else spec.restart.max
        life = self.lifecycle = Lifecycle(
            spec.nproc, 0 if single else most, patient=spec.stop.patience != 0, single=single
        )
        resources = self._resources = jobs.resources
        run_dir = resources.run_dir
        self.journal = Journal(run_dir if run_dir.kept else None, EVENTS_OF_A_LIFE * spec.nproc)
        self.started = Latch()
        self._jobs = jobs
        self.limits = Limits(spec, life, resources.board)
        self._certain: deque[Callable[[], None]] = deque()  # requests; see `_request_certainly`
        self._crashed = False
        self._actions: deque[messages.Action] = deque()  # the first one is being carried out
        loop = self._loop = EventLoop()
        try:
            exits = Exits(spec, life, loop, server, self._handle, resources)
        except BaseException:
            loop.close()
            raise
        ranks = self._ranks = Ranks(life, exits, self._handle)
        link = self._link = Link(loop, server, ranks, self._swept, self._preloaded, self.notes)
        self.outcomes = Outcomes(
            spec, life, resources, lambda: ranks.records, lambda: bool(link.lost)
        )
        self.recovery = Recovery(
            spec, life, loop, ranks, link, self.outcomes, self.journal, files=run_dir.kept
        )
        exits.decide = self.recovery.decide_for_rank
        self._starts = Starts(life, loop, ranks, jobs, self.journal, link)
        self.last_look = LastLook(spec, life, loop, ranks, run_dir, self.journal.disk)
        self.hangs: Hangs | None = None  # where nothing is to be watched
        if spec.hang.timeout is not None or spec.hang.silence is not None:
            from procession.supervise.hangs import Hangs

            self.hangs = Hangs(
                spec,
                life,
                loop,
                ranks,
                resources.board,
                resources.streams,
                self.last_look,
                self._handle,
            )
        self.conclusion = Conclusion(
            spec, life, loop, resources, self.journal, link, self.outcomes, self.last_look
        )
        self.journal.on_fault(loop.fail)

    def watch(self, fd: int, call: Callable[[], object]) -> None:
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

    def request_stop(self, request: StopRequest) -> None:
        """Ask for the end of the group; returns at once. May be called from any thread."""

        def take() -> None:
            self.conclusion.hurry = True
            hurry = self.limits.change(request)
            self._handle(StopWanted(request.kill, hurry=hurry, notice=self.limits.notice > 0))

        self._loop.request(take)

    def request_signal(self, rank: int | None, number: int, only_caught: bool = False) -> None:
        """Ask for a signal to one rank's process, None for all; from any thread.

        only_caught: if it has a handler for it.
        """
        at = time.monotonic_ns()

        def take() -> None:
            for each in range(self.spec.nproc) if rank is None else (rank,):
                self._ranks.send_asked(each, number, at, only_caught=only_caught)

        self._loop.request(take)

    def request_suspension(self) -> None:
        """Ask that ranks and this whole process stop until SIGCONT; from any thread, or a handler.

        For a supervisor in the main thread. No deadline passes meanwhile.
        """

        def take() -> None:
            began = time.monotonic()
            self._ranks.hold(signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
            # It was continued.
            self._ranks.hold(signal.SIGCONT)
            self._loop.put_off(time.monotonic() - began)

        self._loop.request(take)

    def request_stacks(self, seconds: float, done: Callable[[list[Taken]], None]) -> None:
        """Ask where the ranks are; from any thread.

        `done` is called once, in the loop's thread; in this one, with none, if the group is over.
        """
        self._request_certainly(lambda: self.last_look.look(seconds, done))

    def request_impatience(self) -> None:
        """Ask that a group that has failed, or fails, is ended at once; from any thread."""

        def take() -> None:
            self.limits.patience = 0.0
            if self.lifecycle.waiting:
                self._arm(Deadline(DeadlineKind.PATIENCE, self.lifecycle.attempt))

        self._loop.request(take)

    def subscribe(self, call: Callable[[Event], object], *, inside: bool = False) -> None:
        """Have `call` called with each event, the past ones first.

        In a thread for handlers; inside: in the loop's thread, for a handler that never waits.
        When the group is over, in this thread.
        """
        add = self.journal.hear if inside else self.journal.subscribe
        self._request_certainly(lambda: add(call))

    def _request_certainly(self, call: Callable[[], None]) -> None:
        """Have the loop call `call`; it is called in any case, here if the group is over."""
        self._certain.append(call)
        if not self._loop.request(self._take_requests):
            self._take_requests()

    def _take_requests(self) -> None:
        while True:
            try:
                call = self._certain.popleft()
            except IndexError:
                return
            call()

    @property
    def start_failed(self) -> bool:
        """Whether the group does not work because a rank could not be started."""
        failed = any(rank.start_failed for rank in self.lifecycle.ranks)
        return failed and self.phase is not Phase.RUNNING

    @property
    def stop_signal(self) -> int:
        """The signal by which ranks are, or were, asked to end."""
        return self.limits.stop_signal

    @property
    def losses(self) -> list[str]:
        """What of output and records is lost, and why, one line each."""
        return self.conclusion.losses

    def drain_patiently(self) -> None:
        """Show all output at the end, however slowly it is read. To be called before `run`."""
        self.conclusion.stall_seconds = None

    @property
    def phase(self) -> Phase:
        """Where the group is in its life."""
        return Phase.FAILED if self._crashed else self.lifecycle.phase

    # -- the loop

    def run(self) -> None:
        """Run the group to its end. Leaves nothing open, whatever happens."""
        try:
            self._note_phase()
            self._do(self.lifecycle.begin())
            while not self.phase.final:
                self._ranks.let_exit()
                self.journal.publish()
                self._loop.turn()
            self.end = self.conclusion.draw([*self.recovery.notes, *self.notes])
        except BaseException:
            self._crashed = True
            raise
        finally:
            self.close()

    # -- the lifecycle

    def _handle(self, event: messages.Event) -> None:
        life = self.lifecycle
        if isinstance(event, StopWanted):
            self.last_look.end_now()
        phase, attempt = life.stage.phase, life.attempt
        actions = life.handle(event)
        if isinstance(event, RankEvent):
            self._note_rank(event)
        if life.stage.phase is not phase or life.attempt != attempt:
            self._note_phase()
        if actions:
            self._do(actions)
        if self.recovery.decides:
            # Of single ranks, one that was decided about may have been told of as not started.
            swept = life.single and life.phase is Phase.SWEEPING
            if life.stop_wanted or life.phase is Phase.STOPPING or swept:
                self.recovery.settle()

    def _do(self, actions: list[messages.Action]) -> None:
        """Carry out actions in order; what they lead to comes after them."""
        self._actions += actions
        if len(self._actions) > len(actions) or not actions:
            return  # a call further up carries them out, or they wait for stacks
        self._carry_out()

    def _carry_out(self) -> None:
        """Carry out what is to be done, up to a signal that has to wait for stacks."""
        while self._actions:
            action = self._actions[0]
            if isinstance(action, messages.Spawn):
                if action.rank is None:
                    self._spawn(action.attempt)
                else:
                    self._respawn(action.rank)
            elif isinstance(action, Cancel):
                self._link.cancelled(self._starts.cancel())
                self._link.cancel()
            elif isinstance(action, messages.Signal):
                if self.last_look.hold(action, self._go_on):
                    return
                self._link.signal(list(action.ranks), self._number(action))
            elif isinstance(action, Sweep):
                self._link.sweep(self._number(action))
            elif isinstance(action, Arm):
                self._arm(action.deadline)
            self._actions.popleft()
        self.last_look.write()

    def _go_on(self) -> None:
        """Carry out what has waited for stacks, and what comes after it."""
        waited = self._actions.popleft()
        assert isinstance(waited, messages.Signal)
        self._actions.extendleft(reversed(self.lifecycle.after_waiting(waited)))
        self._carry_out()

    def _number(self, action: messages.Signal | Sweep) -> int:
        return signal.SIGKILL if action.kill else self.limits.stop_signal

    def _arm(self, deadline: Deadline) -> None:
        starts = deadline.kind in (DeadlineKind.START, DeadlineKind.START_IT)
        seconds = self.limits.begin(deadline.kind, self.recovery.delay)
        if seconds is None:
            return

        def fire() -> None:
            if starts and self._link.end_sharing(seconds):
                return
            at, living = time.monotonic_ns(), [*filter(self._ranks.lives, range(self.spec.nproc))]
            self._handle(Deadline(deadline.kind, deadline.attempt, at, deadline.rank))
            for rank in living:
                if self.lifecycle.ranks[rank].state is Worker.LOST:
                    self._note("lost", self.records[rank], at)

        self._loop.after(deadline.key, seconds, fire)

    def _spawn(self, attempt: int) -> None:
        self.limits.grace_ends = NEVER
        if attempt:
            self._resources.board.forget()
        self._ranks.begin()
        self.last_look.begin()
        if self.hangs is not None:
            self.hangs.begin()
        try:
            if self._link.server.lost:  # start the next attempt under another one
                pool.discard(self._link.server)
                self._link.renew(self._jobs.lease())
            self._jobs.begin(self._link.server, attempt)
        except OSError as e:
            self._ranks.start_failed(0, "find a forkserver and a port", e)
        self._starts.all()
        self._link.flush()

    def _respawn(self, rank: int) -> None:
        """Start one rank again, when its time has come."""
        self._ranks.renew(rank)
        self._link.send("clean", rank)
        self._starts.again(rank, self.recovery.delay)

    def _swept(self) -> None:
        """Take note that nothing is left of an attempt; ask what follows, if need be."""
        attempt = self.lifecycle.attempt
        if self.recovery.decides:
            return  # this is not the first time
        if not self.recovery.is_asked_for:
            self._handle(Swept(attempt, again=False))
            return
        for kind in (DeadlineKind.GRACE, DeadlineKind.REAP):
            self._loop.cancel(kind)  # nothing is left that they could be for
        self._resources.streams.drain(DRAIN_SECONDS)  # a failure is also explained by it
        self.recovery.decide_for_group(lambda again: self._handle(Swept(attempt, again)))

    def _preloaded(self, unfit: str, failed: list[str], culprit: str) -> None:
        """Note why ranks cannot be forked, by which module's import, and what is missing."""
        if unfit:
            from procession.preload.started import told_of

            said = told_of(self.spec, unfit, culprit)
        elif failed and isinstance(self.spec.preload, tuple):
            names = ", ".join(failed)
            said = f"preload: {names} could not be imported, and is left to the ranks [P403]"
        else:
            return
        import logging

        self.notes.append(said)
        log = logging.getLogger("procession")
        self.journal.handlers.do("logging", lambda: log.warning("procession: %s", said))

    # -- what happened

    def _note_rank(self, event: RankEvent) -> None:
        record, life = self.records[event.rank], self.lifecycle
        lost, stop_signal = bool(self._link.lost), self.limits.stop_signal
        detail, facts = facts_of_rank(self.spec, life, event, record, stop_signal, lost)
        self._note(KINDS[event.kind], record, event.at, detail, facts)
        if record.exited_at and life.ranks[event.rank].state is Worker.PENDING:
            self._note("restarting", record, time.monotonic_ns(), self.recovery.said)

    def _note(
        self,
        kind: str,
        record: RankRecord,
        at: int,
        detail: str = "",
        facts: Mapping[str, Any] = NO_FACTS,
    ) -> None:
        self.journal.note(kind, record.rank, record.attempt, at, record.pid, detail, facts)

    def _note_phase(self) -> None:
        phase, detail, facts = self.phase, "", NO_FACTS
        if phase is Phase.STARTING:
            facts = facts_of_start(self.spec, self._resources.run_id)
        elif phase is Phase.BACKOFF:
            detail = self.recovery.said
        elif phase in (Phase.RUNNING, Phase.STOPPING):
            self.conclusion.prepare()
        elif phase is Phase.FAILED:
            end = self.conclusion.with_files(lambda read: self.outcomes.first_failure(read=read))
            facts = facts_of_failure(end) if end is not None else NO_FACTS
        attempt = self.lifecycle.attempt
        self.journal.note(phase.name.lower(), None, attempt, detail=detail, facts=facts)
        if phase is Phase.RUNNING:
            self._loop.cancel(DeadlineKind.START)  # with a deadline, the loop wakes each second
            self.recovery.running_since = time.monotonic_ns()
        if phase is not Phase.STARTING:
            self.started.set()

    def close(self) -> None:
        """Give everything back; whatever is left of the group is killed with its forkserver."""
        self.last_look.close()
        self._ranks.close()
        stuck = self._link.server.stuck = self.lifecycle.left_behind
        clean = self.lifecycle.phase.final and not stuck
        self._jobs.close(self._link.server, clean=clean)
        self._loop.close()
        self.journal.end()
        self._take_requests()
        self.journal.let_threads_go()
