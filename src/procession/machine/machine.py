"""The ranks of one run on one machine, as they are known and steered there.

Theory of operation. The rules are the agent's, which tells of each event that it has passed to
them. Here they are passed to a `Lifecycle` of our own, which is thus in the same state; of what
follows, only that is done which an agent cannot do: making what ranks need. If the agent is gone,
the rules go on here (`orphans`). What all that means for the run is its driver's to know. Nothing
keeps the loop from hearing: what may hang (files, code of users) is done by threads (`starting`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from procession.agent.client import Agent
from procession.agent.protocol import STACK_SECONDS
from procession.explain.ends import facts_of_rank, load_words
from procession.explain.records import RankRecord
from procession.machine.lastlook import LastLook
from procession.machine.link import AgentLink
from procession.machine.orphans import Orphans
from procession.machine.ranks import KnownEnds, Ranks
from procession.machine.starting import Starts, terms_of
from procession.prepare.jobs import RankJobs
from procession.rules import messages
from procession.rules.lifecycle import NOT_THERE_YET, Lifecycle
from procession.rules.messages import Arm, Cancel, RankEvent, Spawn, StopWanted
from procession.rules.tables import DeadlineKind, Phase, Worker, WorkerEvent
from procession.system.eventloop import EventLoop
from procession.system.threads import Errands
from procession.values.errors import GroupEnd
from procession.values.events import NO_FACTS
from procession.values.policy import StopRequest
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from procession.machine.hangs import Hangs

    class Listener(Protocol):
        """Takes what happens on a machine, in the thread of the loop."""

        def begins(self) -> None:
            """Take note that an attempt begins."""

        def happened(self, event: messages.Event) -> None:
            """Take an event that was passed to the rules, before what follows is done."""

        def asked(self, rank: int, attempt: int) -> None:
            """Take the question whether a single rank that has failed starts again (`answer`)."""

        @property
        def is_last(self) -> bool:
            """Whether no other attempt follows, whatever happens: the report has what failed."""
            ...

        def remarked(self, said: str) -> None:
            """Take a remark about how the imports before the first fork went."""

        def debugs(self, rank: int, fd: int) -> None:
            """Take a socket over which a rank talks with who debugs it."""

        def suspended(self) -> None:
            """Stop this process: the ranks have been stopped. They go on when this returns."""


KINDS = {kind: kind.name.lower() for kind in WorkerEvent}  # what their events are called
LOAD_SECONDS = 0.05  # many short runs are over by then
START_MARGIN = 1.0  # seconds more for the agent to say that ranks were not there in time


class Machine:
    """Runs the attempts of one run on this machine. For the loop's thread.

    jobs: what the ranks need; given back by `close`, with the agent. publish: passes on what the
    listener has noted; note: takes the events of ranks, as `Journal.note`. disk, handlers: threads
    for files, and for the code of users.

    life: the state of the ranks; ranks: what is known of them; outcomes: how they ended.
    stop_signal: by which they are, or were, asked to end; kill_at: when those that are being ended
    get SIGKILL, in seconds of the monotonic clock, None while none is.
    """

    def __init__(
        self,
        spec: Spec,
        jobs: RankJobs,
        server: Agent,
        loop: EventLoop,
        listener: Listener,
        note: Callable[..., object],
        publish: Callable[[], None],
        disk: Errands,
        handlers: Errands,
    ) -> None:
        self._spec = spec
        self._jobs = jobs
        self._loop = loop
        self._listener = listener
        self.stop_signal = int(spec.stop.signal)
        self.kill_at: float | None = None
        self._orphans: Orphans | None = None  # of an attempt whose agent is gone
        self._answers: dict[int, tuple[float, str]] = {}  # about single ranks that start again
        self._stop_asked = 0  # when the agent was first asked to end the group
        self._holds_back = False  # what ranks write, since they are being ended
        self._blamed: int | None = None  # the first that failed, while that is so
        self._reported: list[int] = []  # those whose tracebacks the report has
        life = self.life = Lifecycle(
            spec.nproc, patient=spec.stop.patience != 0, single=spec.restart.single
        )
        resources = self.resources = jobs.resources
        ranks = self.ranks = Ranks(spec, life, loop, resources, lambda: self.link.ask())
        around = self._take_message, lambda: self._starts.go_on(), self._lose, self._busy
        link = self.link = AgentLink(loop, server, *around)
        self._note = note
        self.outcomes = KnownEnds(ranks, link)
        self._starts = Starts(ranks, jobs, link, publish, disk, handlers)
        self.last_look = LastLook(ranks, link, disk)
        self.hangs: Hangs | None = None  # where nothing is to be watched
        if spec.hang.timeout is not None or spec.hang.silence is not None:
            from procession.machine.hangs import Hangs

            self.hangs = Hangs(ranks, self.last_look, self._hung)

    @property
    def notes(self) -> list[str]:
        """What the report is to say beside how ranks ended."""
        found: list[str] = []
        lost = self.link.lost
        if lost and not self.outcomes.none_started:
            found.append(
                f"the agent (pid {self.link.server.pid}) was lost ({lost}); its "
                "ranks were killed with it, and the launcher ended what they had started [P113]"
            )
        if self.life.left_behind:
            reap = self._spec.stop.reap
            found.append(f"something did not go within {reap:g} s of SIGKILL, and was left [P408]")
        return found

    def end(self, notes: list[str], *, read: bool = True) -> GroupEnd:
        """Say how the attempt ended, when nothing is left of it. read: read files of ranks."""
        link, look = self.link, self.last_look
        if link.lost and self.outcomes.none_started:
            why = f"its agent (pid {link.server.pid}) is gone ({link.lost})"
            return self.outcomes.of_start(why, notes)
        return self.outcomes.of_group(notes, read=read, stacks=look.stacks, stacks_file=look.file)

    @property
    def losses(self) -> list[str]:
        """What of output is lost, and why, one line each."""
        fault = self.resources.run_dir.fault
        return [*self.resources.streams.faults, *([fault] if fault else [])]

    @property
    def records(self) -> list[RankRecord]:
        """What was seen of each rank in the current attempt."""
        return self.ranks.records

    # -- what is wanted

    def begin_attempt(self, attempt: int = 0) -> None:
        """Begin with an attempt; the one before has ended."""
        actions = self.life.begin_attempt(attempt)
        self._listener.begins()
        self._carry_out(actions)

    def stop(self, request: StopRequest, stacks: float = 0.0) -> None:
        """End the ranks. stacks: see `agent.run.Run.stop`."""
        if self.link.is_deaf():  # it has no ranks
            self.link.leave()
            self.link.server.kill()
            self._orphan()
        if self._orphans is not None:
            self.handle(StopWanted(request.kill))
            return
        self._stop_asked = self._stop_asked or time.monotonic_ns()
        if request.stacks and self._spec.hang.stacks and not request.kill:
            stacks = STACK_SECONDS
        if not (self._spec.stop.notice if request.notice is None else request.notice):
            self._hold_back()  # before any rank hears of it
        wishes = {name: wish for name, wish in vars(request).items() if wish is not None}
        if request.signal is not None:
            wishes["signal"] = int(request.signal)
        self.link.ask("stop", {**wishes, "stacks": stacks})

    def debugs(self, *, debugs: bool) -> None:
        """Take nothing for a hang while a rank is debugged; in a stop, it gets its time."""
        if self.hangs is not None:
            self.hangs.debugs(debugs=debugs)
        if not debugs or (self.life.phase is Phase.STOPPING and not self.life.waiting):
            self.link.send("hold" if debugs else "go on")

    def end_patience(self) -> None:
        """End a group that has failed, or fails, at once."""
        self.link.ask("impatience")

    def signal(self, rank: int | None, number: int, only_caught: bool, at: int) -> None:
        """Send a signal to one rank's process, None for all, as they were at this time.

        only_caught: if it has a handler for it.
        """
        ranks = [*range(self._spec.nproc)] if rank is None else [rank]
        self.link.ask("signal", int(number), ranks, only_caught, at)

    def suspend(self) -> None:
        """Stop the ranks, and then this process, until it is continued."""
        deaf = self.link.is_deaf()
        if self.link.left or self.life.phase.final:
            self._listener.suspended()  # the ranks are gone
        elif deaf:
            self.link.server.stop()  # there are no ranks
            self._listener.suspended()
            self.link.server.wake()
        else:
            self.link.ask("suspend")

    def answer(self, rank: int, attempt: int, again: bool, delay: float, said: str) -> None:
        """Say whether a single rank starts again, and in how many seconds. said: in words."""
        self._answers[rank] = delay, said
        self.link.ask("answer", rank, attempt, again, delay)

    # -- what the agent tells

    def _take_message(self, kind: str, words: Any, fds: list[int]) -> None:
        """Take one message, and its descriptors off `fds`; see `agent.protocol`."""
        if kind == "event":
            self.handle(messages.event_of(words))
        elif self.ranks.take_message(kind, words, fds):
            if words[0] == self._blamed:
                self._tell_failure()
        elif kind == "limits":
            self.stop_signal, self.kill_at = words
        elif kind == "debug":
            self._listener.debugs(words[0], fds.pop(0))
        elif kind == "ask":
            self._listener.asked(*words)
        elif kind == "stacks":
            self.last_look.take_stacks(*words)
        elif kind == "suspended":
            self._listener.suspended()
            self.link.send("resume")
        elif kind == "preloaded":
            self.link.server.importing = ()
            self._remark(*words)
        elif kind == "sharing":
            self.link.server.sharing = words[0]
        elif kind == "shared":
            self.link.server.sharing = ""
            self._remark(words[0], [], "")

    def _remark(self, unfit: str, failed: list[str], culprit: str) -> None:
        """Say how the imports before the first fork went, if that is to be said."""
        if unfit:
            from procession.preload.started import told_of

            self._listener.remarked(told_of(self._spec, unfit, culprit))
        elif failed and isinstance(self._spec.preload, tuple):
            names = ", ".join(failed)
            self._listener.remarked(
                f"preload: {names} could not be imported; each rank imports it [P403]"
            )

    def handle(self, event: messages.Event) -> None:
        """Take an event that was passed to the rules."""
        life, lived = self.life, list[int]()
        if isinstance(event, messages.Deadline):
            lived = [*filter(life.lives, range(len(life.ranks)))]
        phase = life.phase
        actions = life.handle(event)
        if isinstance(event, RankEvent):
            if event.kind is WorkerEvent.HUNG and self.hangs is not None:
                self.records[event.rank].hung = self.hangs.why.get(event.rank, "")
            elif event.kind is WorkerEvent.EXITED:
                life.ranks[event.rank].awaited = False
        self._note_event(event, lived)
        if life.phase is Phase.STOPPING and not life.waiting:
            self._hold_back()
        self._listener.happened(event)
        if life.phase is not phase:
            if life.phase is Phase.RUNNING:
                self._loop.cancel(DeadlineKind.START)  # with it, the loop wakes each second
            elif not life.phase.final:
                self.link.look_after()
            if life.phase in (Phase.RUNNING, Phase.STOPPING):
                # What says how a group failed is loaded before it is needed: while ranks end, after
                # what is to be done now; or soon after all have begun. Then a failure does not wait
                # for it, and a run of weeks can still explain itself when this package was replaced
                # meanwhile. Stacks have been taken by the time that ranks end.
                begins = life.phase is Phase.RUNNING
                stacks = begins and self._spec.hang.stacks and self._spec.is_python
                wait = LOAD_SECONDS if begins else 0.0
                self._loop.after(load_words, wait, lambda: load_words(stacks=stacks))
        self._carry_out(actions)

    def _hold_back(self) -> None:
        """Show no more of what ranks write, but of the one that failed first, if one has."""
        if not self._holds_back:
            self._holds_back = True
            self._blamed = next(iter(self.life.failures), None)
            self.resources.streams.hold_back(self._blamed)
            self._tell_failure()

    def _tell_failure(self) -> None:
        """Say what the report will have of the rank that failed first."""
        if self._blamed is not None and self._listener.is_last:
            record = self.records[self._blamed]
            text = record.description.get("traceback", "")
            if text or record.exit.signal is not None:
                self.resources.streams.tell(self._blamed, text)

    def show_together(self) -> None:
        """Show what was held back of the rank that failed first, and of those at the same time."""
        self._reported = [*self.life.failures]
        if not self._reported[1:]:
            return
        together = self.outcomes.of_group(read=False).together
        if self._listener.is_last:
            for end in together:
                self.resources.streams.tell(end.rank, end.traceback)
        self._reported = [end.rank for end in together]
        self.resources.streams.release(self._reported)

    def take_unshown(self) -> None:
        """Take note of what was held back, when all other output has been shown."""
        for rank, held in self.resources.streams.take_held(self._reported).items():
            record = self.records[rank]
            record.unshown, record.unshown_errors = held.lines, tuple(held.kinds)

    def _note_event(self, event: messages.Event, lived: list[int]) -> None:
        """Note an event, if it is one of ranks. lived: of a deadline, those that were there."""
        life = self.life
        if isinstance(event, RankEvent):
            record, lost = self.records[event.rank], bool(self.link.lost)
            told = facts_of_rank(self._spec, life, event, record, self.stop_signal, lost)
            self._note_rank(KINDS[event.kind], record, event.at, *told)
            revived = event.again and life.ranks[event.rank].state is Worker.PENDING
            if revived and record.exited_at:
                why = self._answers[event.rank][1]
                self._note_rank("restarting", record, time.monotonic_ns(), why)
        elif isinstance(event, messages.Deadline):
            for rank in lived:
                if life.ranks[rank].state is Worker.LOST:
                    self._note_rank("lost", self.records[rank], event.at)

    def _note_rank(
        self,
        kind: str,
        record: RankRecord,
        at: int,
        detail: str = "",
        facts: Mapping[str, Any] = NO_FACTS,
    ) -> None:
        self._note(kind, record.rank, record.attempt, at, record.pid, detail, facts)

    def _carry_out(self, actions: list[messages.Action]) -> None:
        """Do what of the actions is ours to do."""
        for action in actions:
            if isinstance(action, Spawn):
                if action.rank is None:
                    self._spawn(action.attempt)
                else:
                    self.ranks.renew(action.rank)
                    self._starts.again(action.rank, self._answers[action.rank][0])
            elif isinstance(action, Cancel):
                self._starts.cancel()
            elif isinstance(action, Arm) and action.deadline.kind is DeadlineKind.START:
                start = self._spec.hang.start
                self._loop.after(DeadlineKind.START, start + START_MARGIN, self._start_is_late)
            if self._orphans is not None:
                self._orphans.carry_out(action)

    def _busy(self) -> bool:
        """Whether the agent has something to do by itself: all but watching ranks that run."""
        ranks, phase = self.life.ranks, self.life.phase
        starts = any(r.state in NOT_THERE_YET for r in ranks)
        return not phase.final and (phase is not Phase.RUNNING or starts)

    # -- starting

    def _spawn(self, attempt: int) -> None:
        link = self.link
        self.kill_at, link.late = None, False
        self._holds_back, self._blamed = False, None
        self.ranks.begin_attempt()
        self.last_look.begin_attempt()
        if attempt:
            self.resources.board.forget()
        if self.hangs is not None:
            self.hangs.begin_attempt()
        if self._orphans is not None:
            self._orphans.close()
            self._orphans = None
        try:
            if link.lost:
                lost = link.server
                link.renew(self._jobs.lease())
                lost.close()
            terms = terms_of(self._spec, self.life, warm=self._jobs.warm)
            link.send("rules", terms, fds=(self.resources.board.fd,))
            self._jobs.begin_attempt(link.server, attempt)
        except OSError as e:
            fault = "find an agent and a port", e.errno or 0, e.strerror or str(e)
            if link.lost:
                self._orphan().take_over(fault, killed=False, stop_asked=0, late=False)
                return
            link.send("no start", 0, attempt, *fault)
        link.look_after()
        self._starts.all()
        link.flush()

    def _start_is_late(self) -> None:
        if self.life.phase is Phase.STARTING:
            self.link.end_if_late(self._spec.hang.start)

    def _hung(self, rank: int, at: int) -> None:
        self.link.ask("hung", rank, at, self.last_look.fresh)

    # -- without the agent

    def _orphan(self) -> Orphans:
        self._orphans = Orphans(self.ranks, self.link.server, self.handle)
        return self._orphans

    def _lose(self, why: str, ours: bool) -> None:
        """Go on without an agent that is gone. ours: it was killed here."""
        if self.life.phase.final or self._orphans is not None:
            return  # before another attempt, there will be another agent
        server = self.link.server
        if server.sharing and not ours:
            how = server.ending()
            why = f"it ended in the shared set-up {server.sharing}{how and f': {how}'}"
            self.link.lost = why
        self.last_look.drop()
        self._starts.cancel()
        fault = "start", 0, f"its agent (pid {server.pid}) is gone ({why})"
        stop, late = self._stop_asked, self.link.late
        self._orphan().take_over(fault, killed=ours, stop_asked=stop, late=late)

    def close(self) -> None:
        """Give everything back; whatever is left of the ranks is killed with their agent."""
        self.last_look.close()
        self.link.leave()
        self.ranks.close()
        if self._orphans is not None:
            self._orphans.close()
        stuck = self.link.server.stuck = self.life.left_behind
        self._jobs.close(self.link.server, clean=self.life.phase.final and not stuck)
