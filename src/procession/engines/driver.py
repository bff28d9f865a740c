"""The driver: the one loop that owns a job over several nodes, from its agents to its end.

Theory of operation. As `procession.supervisor`, one level up: wait -> event -> `JobLife.handle` ->
do. One epoll waits for the links to agents, for new ones, and for what other threads ask; the
engine has a thread of its own, since engines block. Nothing about ranks is taken from an engine.

Each agent holds a lease on the driver, and the driver on each agent (see `roster`). What was lost
may still run for a moment, until its own lease ends; so no attempt begins within `FENCE` of a loss.
What an engine knows of agents counts only where none has come yet: links are quicker, and right.

Times are each machine's own: heartbeats tell how far its clock is from ours (see `clocks`), and
failures are put in order by our clock.
"""

from __future__ import annotations

import os
import pickle
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping

from procession.engines import lifecycle
from procession.engines.again import Again, Verdict
from procession.engines.agent import Invitation
from procession.engines.contract import AgentCommand, EngineEvent, Said, SlotGone
from procession.engines.enginethread import EngineThread
from procession.engines.lifecycle import (
    Arm,
    Deadline,
    DeadlineKind,
    Decide,
    Decided,
    Drop,
    End,
    Happened,
    JobLife,
    JobPhase,
    Launch,
    Meet,
    Met,
    Replace,
    Slot,
    SlotEvent,
    Stop,
    StopWanted,
)
from procession.engines.meeting import listen, make_room, own_addresses
from procession.engines.outcome import NodePart, facts_of_failure, job_end
from procession.engines.plain import group_end, rank_end
from procession.engines.printer import Printer
from procession.engines.roster import AgentRecord, Roster
from procession.engines.wire import KEY_BYTES, Message
from procession.engines.work import Work
from procession.errors import GroupEnd, Outcome, RankEnd
from procession.events import NO_FACTS
from procession.journal import Journal
from procession.output.rundir import masked_words
from procession.rankenv import Node
from procession.spec import words_of
from procession.system.eventloop import EventLoop
from procession.system.latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.engines.contract import Engine
    from procession.events import Event

LEASE = 5.0  # seconds without a word after which either side takes the other for lost
FENCE = 2.0  # seconds from the loss of a node to the next attempt
FAREWELL = 3.0  # seconds for agents to go when they are told to; then the engine kills them
MARGIN = 5.0  # seconds beyond all deadlines of a group, for its agent's own work
LAST_WORDS = 2.0  # seconds for the console to take what is left, where nobody is patient
BEFORE = (JobPhase.GATHERING, JobPhase.MEETING, JobPhase.STARTING)


class Driver:
    """Runs one job. `run` returns when it has ended, and `end` then says how.

    said: what the engine said last. on_signal: to be called with each signal that an agent got, and
    the name of its machine.
    """

    def __init__(
        self,
        work: Work,
        engine: Engine,
        *,
        lease: float = LEASE,
        place: str = "",
        on_failure: Callable[[GroupEnd], object] | None = None,
        on_quiet: Callable[[], None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.work = work
        self.engine = engine
        replaces = work.restart.node_losses > 0
        self.life = JobLife.of(work.nodes, max(work.nodes, engine.slots), replaces=replaces)
        self.end: GroupEnd | None = None
        self.parts: list[NodePart] = []
        self.said: deque[str] = deque(maxlen=10)
        self.started = Latch()
        self.journal = Journal(lambda _: None)
        self.on_signal: Callable[[int, str], None] | None = None
        self._lease = lease
        self._place = place
        self._say = say
        self._key = secrets.token_bytes(KEY_BYTES)
        self._lost_at = 0.0
        self._delay = 0.0
        self._running_since = 0
        self._active_at = time.monotonic_ns()  # when a rank anywhere wrote last
        self._stop_how: dict[str, Any] = {}
        self._address = ("", 0)
        self._last_end: GroupEnd | None = None
        self._cut = False
        self._patient = False
        self._again = Again(work.restart, on_failure)
        self._loop = EventLoop()
        self._actions: deque[lifecycle.Action] = deque()
        try:
            make_room(self.life.count)
            self._addresses = own_addresses()
            self._door = listen()
        except BaseException:
            self._loop.close()
            raise
        self._printer = Printer(self._was_shown, on_quiet)
        self._engine = EngineThread(engine, self._loop, self._engine_told)
        self._roster = Roster(
            self._loop,
            self,
            key=self._key,
            lease=lease,
            most=self.life.count,
            beat=self._beat,
        )

    # -- from other threads

    def request_stop(
        self,
        *,
        kill: bool = False,
        cut: bool = False,
        number: int | None = None,
        grace: float | None = None,
        notice: float | None = None,
    ) -> None:
        """Ask for the end of the job; see `Group.stop`. cut: show no more output."""
        how = {"signal": number, "grace": grace, "notice": notice}

        def take() -> None:
            self._stop_how.update({name: v for name, v in how.items() if v is not None})
            self._cut = self._cut or cut
            self._handle(StopWanted(kill=kill))

        self._loop.request(take)

    def request_signal(self, number: int, *, only_caught: bool = False) -> None:
        """Have each rank sent a signal."""

        def take() -> None:
            for slot in self.life.busy:
                self._roster.tell(slot, "signal", {"number": number, "only_caught": only_caught})

        self._loop.request(take)

    def subscribe(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event of the job, the past ones first."""
        if not self._loop.request(lambda: self.journal.subscribe(call)):
            self.journal.subscribe(call)

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Have the loop call `call` when `fd` can be read; to be used in its thread."""
        self._loop.watch(fd, call)

    def drain_patiently(self) -> None:
        """Have all output shown at the end, however slowly it is read."""
        self._patient = True

    def say(self, text: str) -> None:
        """Show a line of our own on stderr, between those of the ranks."""
        self._printer.say(text)

    def note(self, text: str) -> None:
        """Add to what is said of the end; "" adds nothing."""
        if text and self.end is not None:
            self.end = self.end.__replace__(notes=(*self.end.notes, text))

    @property
    def start_failed(self) -> bool:
        """Whether agents were too few, or a rank could not be started."""
        return self.life.missing or self._failed_by(Outcome.NOT_STARTED)

    def _failed_by(self, outcome: Outcome) -> bool:
        """Whether that is how any node failed first in this attempt, as far as it is told."""
        for part in self.parts:
            end = part.failed or (part.end and next(iter(part.end.failures), None))
            if end is not None and end.outcome is outcome:
                return True
        return False

    @property
    def run_id(self) -> str:
        """What the job is called."""
        return os.path.basename(self._place) or self.work.spec.name

    # -- the loop

    def run(self) -> None:
        """Run the job to its end. Leaves nothing open, whatever happens."""
        try:
            self._note_phase()
            self._do(self.life.begin())
            port = self._door.getsockname()[1]
            invitation = Invitation(
                tuple((each, port) for each in self._addresses), self._key, self._lease, slot=0
            )
            argv = (sys.executable, "-m", "procession.engines.agent")
            self._roster.watch(self._door)
            self._engine.start(AgentCommand(argv, invitation.variables()))
            while not self.life.phase.final:
                self.journal.tell()
                self._loop.turn()
            self._conclude()
        finally:
            self.close()

    def _handle(self, event: lifecycle.Event) -> None:
        before = self.life.phase, self.life.attempt
        actions = self.life.handle(event)
        if (self.life.phase, self.life.attempt) != before:
            self._note_phase()
        self._do(actions)

    def _do(self, actions: list[lifecycle.Action]) -> None:
        self._actions += actions
        if len(self._actions) > len(actions):
            return  # a call further up carries them out
        while self._actions:
            self._carry_out(self._actions[0])
            self._actions.popleft()

    def _carry_out(self, action: lifecycle.Action) -> None:
        if isinstance(action, Meet):
            self._roster.tell(action.slot, "meet", {"attempt": self.life.attempt})
        elif isinstance(action, Launch):
            self._launch(action)
        elif isinstance(action, Stop):
            self._stop(action)
        elif isinstance(action, Replace):
            self._engine.replace(action.slot)
        elif isinstance(action, Drop):
            for slot in action.slots:
                self._roster.drop(slot, "it did not end its ranks in time")
        elif isinstance(action, Decide):
            self._decide()
        elif isinstance(action, Arm):
            self._arm(action.deadline)
        else:
            assert isinstance(action, End)

    def _arm(self, deadline: Deadline) -> None:
        stop = self.work.spec.stop
        grace = self._stop_how.get("grace", stop.grace)
        notice = self._stop_how.get("notice", stop.notice)
        seconds = {
            DeadlineKind.GATHER: self.work.spec.hang.start,
            DeadlineKind.STOP: notice + grace + stop.reap + MARGIN,
            DeadlineKind.KILL: stop.reap + MARGIN,
            DeadlineKind.BACKOFF: self._delay,
        }[deadline.kind]
        self._loop.after(deadline.kind, seconds, lambda: self._handle(deadline))

    def _stop(self, action: Stop) -> None:
        fields = {"attempt": self.life.attempt, "kill": action.kill, "failed": action.failed}
        fields["hung"] = self._failed_by(Outcome.HUNG)
        fields |= {"cut": self._cut, **({} if action.failed else self._stop_how)}
        for slot in action.slots:
            self._roster.tell(slot, "stop", fields)

    # -- agents, who call these; see `roster`

    def expects(self, slot: int) -> bool:
        """Tell whether an agent may come to this slot."""
        return 0 <= slot < self.life.count and self.life.slots[slot] is Slot.AWAITED

    def joined(self, agent: AgentRecord) -> None:
        """Take note that an agent is there."""
        from procession import __version__

        if agent.version != __version__:
            self._announce(f"{agent.host} has procession {agent.version}; here is {__version__}")
        self._note("joined", agent.slot)
        self._handle(Happened(SlotEvent.JOINED, agent.slot))

    def lost(self, agent: AgentRecord, why: str) -> None:
        """Take note that an agent is gone, or unreachable."""
        slot = agent.slot
        node = self.life.node_of(slot)
        if node is not None and self.life.slots[slot] is Slot.BUSY:
            part = self.parts[node]
            part.lost, part.lost_at = why, int(agent.link.heard_at * 1e9)
            self._lost_at = time.monotonic()
            self._note("node_lost", slot, why)
            self._announce(f"node {node} ({part.host}) is lost: {why}; all ranks are ended")
        self._handle(Happened(SlotEvent.GONE, slot))

    def heard(self, agent: AgentRecord, message: Message) -> None:
        """Take what an agent tells. Raises ValueError, KeyError or TypeError for what is none."""
        fields, slot = message.fields, agent.slot
        if message.kind == "pulse":
            if fields.get("active"):
                self._active_at = max(self._active_at, agent.clocks.ours(int(fields["active"])))
        elif message.kind == "log":
            self._printer.show(int(fields["stream"]), message.blob, agent)
        elif message.kind == "signal":
            self._note("signalled", slot, facts={"signal": int(fields["number"])})
            if self.on_signal is not None:
                self.on_signal(int(fields["number"]), agent.host)
        elif fields.get("attempt") == self.life.attempt:
            node = self.life.node_of(slot)
            if message.kind == "met":
                self._address = str(fields["address"]), int(fields["port"])
                self._handle(Met(self.life.attempt))
            elif node is not None and self.life.slots[slot] is Slot.BUSY:
                self._heard_of_ranks(slot, self.parts[node], message)

    def _heard_of_ranks(self, slot: int, part: NodePart, message: Message) -> None:
        fields = message.fields
        if message.kind == "ready":
            self._handle(Happened(SlotEvent.READY, slot))
        elif message.kind == "failed":
            part.failed = rank_end(fields["end"])
            rank = part.node * self.work.nproc + part.failed.rank
            self._note("rank_failed", slot, facts=facts_of_failure(part.failed, rank))
            self._handle(Happened(SlotEvent.FAILED, slot))
        elif message.kind == "value":
            part.values[int(fields["rank"])] = message.blob
        elif message.kind == "ended":
            part.end, part.failed = group_end(fields["end"]), None
            part.state = str(fields["state"])
            part.stacks, part.told = fields["stacks"], fields["told"]
            ok = part.state in ("SUCCEEDED", "STOPPED") and not part.end.failures
            self._handle(Happened(SlotEvent.ENDED, slot, ok=ok))

    def _beat(self) -> dict[str, Any]:
        """Give what heartbeats tell: for how long no rank has written anything."""
        if self.work.spec.hang.silence is None:
            return {}
        return {"quiet": max(0, time.monotonic_ns() - self._active_at)}

    def _was_shown(self, blocks: list[tuple[object, int]]) -> None:
        self._loop.request(lambda: self._roster.credit(blocks))

    # -- the engine

    def _engine_told(self, event: EngineEvent) -> None:
        if isinstance(event, Said):
            self.said.append(event.text)
            self._announce(f"{self.engine.name}: {event.text}")
            return
        self.said.append(event.why)
        slots = [event.slot] if isinstance(event, SlotGone) else range(self.life.count)
        for slot in slots:
            if self.life.slots[slot] is Slot.AWAITED:
                self._handle(Happened(SlotEvent.GONE, slot))

    # -- an attempt

    def _launch(self, action: Launch) -> None:
        self._active_at = time.monotonic_ns()
        self.parts = [
            NodePart(node, self._roster.hosts[slot], self._roster.agents[slot].clocks, {})
            for node, slot in enumerate(action.slots)
        ]
        blobs: dict[int, bytes] = {}
        for node, slot in enumerate(action.slots):
            spec = self.work.of(node)
            if id(spec) not in blobs:
                blobs[id(spec)] = pickle.dumps(spec)
            place = Node(
                rank=node,
                count=self.work.nodes,
                address=self._address[0],
                port=self._address[1],
                role=spec.node.role,
                run_id=spec.node.run_id or self.run_id,
                attempt=action.attempt,
                restarts=self.work.restart.max,
            )
            fields = {
                "attempt": action.attempt,
                "node": vars(place),
                "place": os.path.join(self._place, f"node_{node}") if self._place else "",
                "devices": self.work.devices,
                "gpus": self.work.gpus,
            }
            self._roster.tell(slot, "launch", fields, blobs[id(spec)])

    def _decide(self) -> None:
        end = self._last_end = self._end_of_attempt([])
        attempt = self.life.attempt
        if self.life.stop_wanted or not end.failures:
            self._handle(Decided(attempt, again=False))
            return
        uptime = None
        if self._running_since:
            uptime = (end.failures[0].happened_at - self._running_since) / 1e9
        self._running_since = 0

        def done(verdict: Verdict) -> None:
            self._loop.request(lambda: self._decided(attempt, verdict))

        self._again.decide(end, uptime, done)

    def _decided(self, attempt: int, verdict: Verdict) -> None:
        fence = self._lost_at + FENCE - time.monotonic() if self._lost_at else 0.0
        self._delay = max(verdict.delay, fence, 0.0)
        if verdict.again and not self.life.stop_wanted:
            from procession.report import format_seconds

            wait = f" in {format_seconds(self._delay)}" if self._delay >= 0.05 else ""
            self._announce(f"{verdict.said}; attempt {attempt + 1} starts{wait}")
        self._handle(Decided(attempt, verdict.again))

    # -- what happened

    def _note_phase(self) -> None:
        phase = self.life.phase
        if phase is JobPhase.RUNNING:
            self._running_since = time.monotonic_ns()
        if phase not in BEFORE:
            self.started.set()
        if phase not in (JobPhase.MEETING, JobPhase.DECIDING):
            facts = self._facts_of_phase()
            self.journal.note(phase.name.lower(), None, self.life.attempt, facts=facts)

    def _facts_of_phase(self) -> Mapping[str, Any]:
        work = self.work
        if self.life.phase is JobPhase.STARTING:
            return {
                "name": work.spec.name,
                "run": self.run_id,
                "program": type(work.spec.program).__name__.lower(),
                "words": masked_words(words_of(work.spec.program)),
                "nproc": work.nproc * work.nodes,
                "node": 0,
                "nodes": work.nodes,
                "first": 0,
                "restarts": work.restart.max,
                "launcher": os.getpid(),
            }
        if self.life.phase is JobPhase.FAILED:
            return facts_of_failure(self._final_end().failures[0])
        return {}

    def _note(
        self, kind: str, slot: int, detail: str = "", facts: Mapping[str, Any] = NO_FACTS
    ) -> None:
        node = self.life.node_of(slot)
        told = {"host": self._roster.hosts.get(slot, ""), "slot": slot, **facts}
        told |= {} if node is None else {"of_node": node}
        self.journal.note(kind, None, self.life.attempt, detail=detail, facts=told)

    def _announce(self, text: str) -> None:
        if self._say is not None:
            self._say(text)

    # -- the end

    def _conclude(self) -> None:
        self.journal.tell()
        self.end = self._final_end()
        for slot in self._roster.agents:
            self._roster.tell(slot, "bye", {})
        self._farewell()
        if not self._printer.close(None if self._patient and not self._cut else LAST_WORDS):
            note = "the console did not take all output in time; the rest was cut off"
            self.end = self.end.__replace__(notes=(*self.end.notes, note))

    def _farewell(self) -> None:
        """Let agents go, then have the engine end what is left, and give everything back."""
        over: list[bool] = []
        self._loop.after("farewell", FAREWELL, lambda: over.append(True))
        while self._roster.agents and not over:
            self._loop.turn()
        # Who is lost may still be there.
        doubtful = any(s in (Slot.AWAITED, Slot.GONE) for s in self.life.slots)
        self.said += self._engine.finish(kill=doubtful or bool(self._roster.agents))

    def _end_of_attempt(self, notes: list[str]) -> GroupEnd:
        spec, life = self.work.spec, self.life
        return job_end(
            spec.name, spec.nproc, self.work.nodes, life.attempt, self.parts, notes, self._place
        )

    def _final_end(self) -> GroupEnd:
        notes, last = list(self._again.notes), self._last_end
        world = self.work.nproc * self.work.nodes
        if self.life.missing and last is None:
            cause = RankEnd(
                rank=0,
                pid=None,
                outcome=Outcome.NOT_STARTED,
                message=f"could not be started, nor any other rank: {self._missing()}",
                happened_at=time.monotonic_ns(),
            )
            return GroupEnd(self.work.spec.name, world, failures=(cause,), notes=tuple(notes))
        if self.life.missing and last is not None:
            return last.__replace__(notes=(*last.notes, *notes, self._missing()))
        if last is not None and last.attempt == self.life.attempt:
            return last.__replace__(notes=(*notes, *last.notes))
        if not self.parts:
            return GroupEnd(self.work.spec.name, world)
        return self._end_of_attempt(notes)

    def _missing(self) -> str:
        there = sum(s in (Slot.IDLE, Slot.BUSY) for s in self.life.slots)
        why = f": {self.said[-1]}" if self.said else f" within {self.work.spec.hang.start:g} s"
        return f"{there} of {self.work.nodes} agents came{why}"

    def close(self) -> None:
        """Give everything back."""
        self._roster.close()
        self._door.close()
        self._printer.close(0.0)
        self._engine.close()
        self._loop.close()
        self.started.set()
        self.journal.wake()


__all__ = ["FENCE", "LEASE", "Driver"]
