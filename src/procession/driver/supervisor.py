"""The supervisor: the one loop that owns a run in its launcher, from its first process to its end.

Theory of operation. The rules are the agent's, which tells of each event that it has passed to
them. Here they are passed to a `Lifecycle` of our own, which is thus in the same state; of what
follows, the loop does what is the launcher's to do: it makes what ranks need, decides what starts
again, writes down and shows what happened, and says in the end why. If the agent is gone, the
rules go on here (`orphans`).

Nothing keeps the loop from hearing: what may hang (files, and the code of users) is done by threads
(`journal`, `starting`, `recovery`).

The loop runs in a thread of its own (`Group`), or in the main thread of the command.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from procession.agent import pool
from procession.agent.client import Agent
from procession.driver.conclusion import Conclusion, Outcomes
from procession.driver.journal import Journal
from procession.driver.lastlook import LastLook
from procession.driver.link import Link
from procession.driver.noting import Noting
from procession.driver.orphans import Orphans
from procession.driver.ranks import Ranks
from procession.driver.recovery import GROUP, Recovery
from procession.driver.starting import Starts, terms_of
from procession.explain.records import RankRecord
from procession.prepare.jobs import RankJobs
from procession.rules import messages
from procession.rules.lifecycle import NOT_THERE_YET, Lifecycle
from procession.rules.messages import Arm, Cancel, RankEvent, Spawn, StopWanted, Swept
from procession.rules.tables import DeadlineKind, Phase, Worker, WorkerEvent
from procession.system.eventloop import EventLoop
from procession.system.threads import Latch
from procession.values.errors import GroupEnd
from procession.values.events import Event
from procession.values.policy import StopRequest
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.agent.stacks import Taken
    from procession.driver.hangs import Hangs

EVENTS_OF_A_LIFE = 10  # of one rank
START_MARGIN = 1.0  # seconds more for the agent to say that ranks were not there in time


class Supervisor:
    """Runs one group. `run` returns when it has ended, and `end` then says how.

    Its parts that others look at: lifecycle, journal, outcomes, last_look, recovery; started: set
    when the group has left its first phase, or has ended; stop_signal: by which ranks are, or were,
    asked to end; kill_at: when those that are being ended get SIGKILL, in seconds of the monotonic
    clock, None while none is.
    """

    def __init__(self, spec: Spec, jobs: RankJobs, server: Agent) -> None:
        self.spec = spec
        self.end: GroupEnd | None = None
        single = spec.restart.single
        most = sys.maxsize if spec.restart.window is not None else spec.restart.max
        life = self.lifecycle = Lifecycle(
            spec.nproc, 0 if single else most, patient=spec.stop.patience != 0, single=single
        )
        resources = self._resources = jobs.resources
        run_dir = resources.run_dir
        self.journal = Journal(run_dir if run_dir.kept else None, EVENTS_OF_A_LIFE * spec.nproc)
        self.started = Latch()
        self.stop_signal = int(spec.stop.signal)
        self.kill_at: float | None = None
        self._jobs = jobs
        self._crashed = False
        self._orphans: Orphans | None = None  # of an attempt whose agent is gone
        self._stop_asked = 0  # when the agent was first asked to end the group
        loop = self._loop = EventLoop()
        ranks = self._ranks = Ranks(spec, life, loop, resources, lambda: self._link.ask())
        around = self._hear, lambda: self._starts.go_on(), self._lose, self._busy
        link = self._link = Link(loop, server, *around)
        self.outcomes = Outcomes(
            spec, life, resources, lambda: ranks.records, lambda: bool(link.lost)
        )
        self.recovery = Recovery(
            spec, life, loop, self.outcomes, self.journal, resources, self._answer
        )
        self._noting = Noting(spec, resources.run_id, life, ranks, self.journal)
        self._starts = Starts(life, loop, ranks, jobs, self.journal, link)
        self.last_look = LastLook(spec, life, link, run_dir, self.journal.disk)
        self.hangs: Hangs | None = None  # where nothing is to be watched
        if spec.hang.timeout is not None or spec.hang.silence is not None:
            from procession.driver.hangs import Hangs

            self.hangs = Hangs(spec, life, loop, ranks, resources, self.last_look, self._hung)
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
            if self._link.deaf:
                self._end_agent()
            if self._orphans is not None:
                self._handle(StopWanted(request.kill))
            else:
                self._stop_asked = self._stop_asked or time.monotonic_ns()
                changes = request.changes
                if request.signal is not None:
                    changes["signal"] = int(request.signal)
                self._link.ask("stop", {"kill": request.kill, **changes})

        self._loop.request(take)

    def request_signal(self, rank: int | None, number: int, only_caught: bool = False) -> None:
        """Ask for a signal to one rank's process, None for all; from any thread.

        only_caught: if it has a handler for it.
        """
        at = time.monotonic_ns()
        ranks = [*range(self.spec.nproc)] if rank is None else [rank]
        self._loop.request(lambda: self._link.ask("signal", int(number), ranks, only_caught, at))

    def request_suspension(self) -> None:
        """Ask that ranks and this whole process stop until SIGCONT; from any thread, or a handler.

        For a supervisor in the main thread. No deadline passes meanwhile.
        """

        def take() -> None:
            if self._link.left:
                self._suspend()  # the ranks are gone
            elif self._link.deaf:
                self._link.server.stop()  # there are no ranks
                self._suspend()
                self._link.server.wake()
            else:
                self._link.ask("suspend")

        self._loop.request(take)

    def _suspend(self) -> None:
        """Stop this process: the ranks have been stopped."""
        self._loop.hold()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._loop.release()  # it was continued

    def request_stacks(self, seconds: float, done: Callable[[list[Taken]], None]) -> None:
        """Ask where the ranks are; from any thread.

        `done` is called once, in the loop's thread; in this one, with none, if the group is over.
        """
        self._loop.request_certainly(lambda: self.last_look.look(seconds, done))

    def request_impatience(self) -> None:
        """Ask that a group that has failed, or fails, is ended at once; from any thread."""
        self._loop.request(lambda: self._link.ask("impatience"))

    def subscribe(self, call: Callable[[Event], object], *, inside: bool = False) -> None:
        """Have `call` called with each event, the past ones first.

        In a thread for handlers; inside: in the loop's thread, for a handler that never waits.
        When the group is over, in this thread.
        """
        add = self.journal.hear if inside else self.journal.subscribe
        self._loop.request_certainly(lambda: add(call))

    @property
    def start_failed(self) -> bool:
        """Whether the group does not work because a rank could not be started."""
        failed = any(rank.start_failed for rank in self.lifecycle.ranks)
        return failed and self.phase is not Phase.RUNNING

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
            self._tell_terms()
            self._do(self.lifecycle.begin())
            while not self.phase.final:
                self.journal.publish()
                self._loop.turn()
            self.end = self.conclusion.draw([*self.recovery.notes, *self._noting.notes])
        except BaseException:
            self._crashed = True
            raise
        finally:
            self.close()

    # -- what the agent tells

    def _hear(self, kind: str, words: Any, fds: list[int]) -> None:
        """Take one message, and its descriptors off `fds`; see `agent.protocol`."""
        if kind == "event":
            self._handle(messages.event_of(words))
        elif self._ranks.hear(kind, words, fds):
            pass
        elif kind == "limits":
            self.stop_signal, self.kill_at = words
        elif kind == "ask":
            self.recovery.decide(*words)
        elif kind == "stacks":
            self.last_look.take(*words)
        elif kind == "suspended":
            self._suspend()
            self._link.send("resume")
        elif kind == "preloaded":
            self._link.server.importing = ()
            self._noting.preloaded(*words)
        elif kind == "sharing":
            self._link.server.sharing = words[0]
        elif kind == "shared":
            self._link.server.sharing = ""
            self._noting.preloaded(words[0], [], "")

    def _handle(self, event: messages.Event) -> None:
        """Take an event that was passed to the rules."""
        life = self.lifecycle
        phase, attempt = life.stage.phase, life.attempt
        ends = isinstance(event, messages.Deadline)
        lived = [*filter(life.lives, range(len(life.ranks)))] if ends else []
        actions = life.handle(event)
        if isinstance(event, RankEvent):
            self._note_rank(event)
        elif isinstance(event, messages.Deadline):
            for rank in lived:
                if life.ranks[rank].state is Worker.LOST:
                    self._noting.lost(rank, event.at)
        if life.stage.phase is not phase or life.attempt != attempt:
            self._note_phase()
        self._do(actions)

    def _do(self, actions: list[messages.Action]) -> None:
        """Do what of the actions is the launcher's to do."""
        for action in actions:
            if isinstance(action, Spawn):
                if action.rank is None:
                    self._spawn(action.attempt)
                else:
                    self._respawn(action.rank)
            elif isinstance(action, Cancel):
                self._starts.cancel()
            elif isinstance(action, Arm) and action.deadline.kind is DeadlineKind.START:
                start = self.spec.hang.start
                self._loop.after(DeadlineKind.START, start + START_MARGIN, self._start_is_late)
            if self._orphans is not None:
                self._orphans.do(action)

    def _note_rank(self, event: RankEvent) -> None:
        rank = event.rank
        if event.kind is WorkerEvent.HUNG and self.hangs is not None:
            self.records[rank].hung = self.hangs.why.get(rank, "")
        elif event.kind is WorkerEvent.EXITED:
            self.lifecycle.ranks[rank].awaited = False
        self._noting.rank(event, self.stop_signal, lost=bool(self._link.lost))
        if event.again:
            self._noting.starts_again(rank, self.recovery.decided[rank].said)

    def _note_phase(self) -> None:
        phase = self.phase
        if phase in (Phase.RUNNING, Phase.STOPPING):
            self.conclusion.prepare()
        said = self.recovery.decided[GROUP].said
        self._noting.phase(phase, said, self.conclusion.first_failure)
        if not (phase is Phase.RUNNING or phase.final):
            self._link.look_after()
        if phase is Phase.RUNNING:
            self._loop.cancel(DeadlineKind.START)  # with a deadline, the loop wakes each second
            self.recovery.running_since = time.monotonic_ns()
        if phase is not Phase.STARTING:
            self.started.set()

    def _busy(self) -> bool:
        """Whether the agent has something to do by itself: all but watching ranks that run."""
        ranks = self.lifecycle.ranks
        return self.phase is not Phase.RUNNING or any(r.state in NOT_THERE_YET for r in ranks)

    # -- starting

    def _tell_terms(self) -> None:
        terms = terms_of(self.spec, self.lifecycle, warm=self._jobs.warm)
        self._link.send("rules", terms, fds=(self._resources.board.fd,))

    def _spawn(self, attempt: int) -> None:
        self.kill_at, self._link.late = None, False
        self._ranks.begin()
        self.last_look.begin()
        if attempt:
            self._resources.board.forget()
        if self.hangs is not None:
            self.hangs.begin()
        try:
            if self._orphans is not None:
                self._get_another_agent()
            self._jobs.begin(self._link.server, attempt)
        except OSError as e:
            fault = "find an agent and a port", e.errno or 0, e.strerror or str(e)
            if self._orphans is not None:
                self._orphans.close()
                self._orphan().begin(fault, killed=False, stop_asked=0, late=False)
                return
            self._link.send("no start", 0, attempt, *fault)
        self._starts.all()
        self._link.flush()

    def _get_another_agent(self) -> None:
        """Go on with another agent than the one that is lost. Raises OSError."""
        lost, orphans = self._link.server, self._orphans
        self._link.renew(self._jobs.lease())
        pool.discard(lost)
        if orphans is not None:
            orphans.close()
        self._orphans = None
        self._tell_terms()

    def _respawn(self, rank: int) -> None:
        """Start one rank again, when its time has come."""
        self._ranks.renew(rank)
        self._starts.again(rank, self.recovery.decided[rank].delay)

    def _start_is_late(self) -> None:
        if self.phase is Phase.STARTING:
            self._link.end_if_late(self.spec.hang.start)

    # -- without the agent

    def _end_agent(self) -> None:
        """Kill an agent that hears nothing, and has no ranks."""
        self._link.leave()
        self._link.server.kill()
        self._orphan()

    def _orphan(self) -> Orphans:
        life, server, reap = self.lifecycle, self._link.server, self.spec.stop.reap
        around = life, self._loop, self._ranks, self.recovery, server, reap
        self._orphans = Orphans(*around, self._handle, self._swept)
        return self._orphans

    def _lose(self, why: str, ours: bool) -> None:
        """Go on without an agent that is gone. ours: it was killed here."""
        if self.phase.final or self._orphans is not None:
            return
        server = self._link.server
        if server.sharing and not ours:
            how = server.ending()
            why = f"it ended in the shared set-up {server.sharing}{how and f': {how}'}"
            self._link.lost = why
        self.last_look.drop()
        self._starts.cancel()
        fault = "start", 0, f"its agent (pid {server.pid}) is gone ({why})"
        stop, late = self._stop_asked, self._link.late
        self._orphan().begin(fault, killed=ours, stop_asked=stop, late=late)

    def _hung(self, rank: int, at: int) -> None:
        self._link.ask("hung", rank, at, self.last_look.fresh)

    def _swept(self) -> None:
        """Take note that nothing is left of an attempt whose agent is gone."""
        life = self.lifecycle
        if self.recovery.is_asked_for:
            self.recovery.decide(GROUP, life.attempt)
        else:
            self._handle(Swept(life.attempt, again=False))

    def _answer(self, rank: int, attempt: int, again: bool, delay: float) -> None:
        """Say whether the group, or a single rank, starts again."""
        if self._orphans is not None:
            self._orphans.close()
            self._handle(Swept(attempt, again))
        else:
            self._link.ask("answer", rank, attempt, again, delay)

    def close(self) -> None:
        """Give everything back; whatever is left of the group is killed with its agent."""
        self.last_look.close()
        self._ranks.close()
        if self._orphans is not None:
            self._orphans.close()
        stuck = self._link.server.stuck = self.lifecycle.left_behind
        clean = self.lifecycle.phase.final and not stuck
        self._jobs.close(self._link.server, clean=clean)
        self._loop.close()
        self.journal.end()
        self.journal.let_threads_go()
