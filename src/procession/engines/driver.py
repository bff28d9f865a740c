"""The driver: the one loop that owns a job over several nodes, from its agents to its end.

Theory of operation. As `procession.supervisor`, one level up: wait -> event -> `JobLife.handle` ->
do. One epoll waits for the links to agents, for new ones, and for what other threads ask; the
engine has a thread of its own, since engines block. Nothing about ranks is taken from an engine.

Each agent holds a lease on the driver, and the driver on each agent: heartbeats go once in a fifth
of it. A node is lost when its link ends, when nothing has come on it for the lease, or when the
engine knows that its agent is gone. What was lost may still run for a moment, until its own lease
ends; so no attempt begins within `FENCE` of a loss.

Times are each machine's own: heartbeats tell how far its clock is from ours (see `clocks`), and
failures are put in order by our clock.
"""

from __future__ import annotations

import os
import pickle
import queue
import secrets
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from procession.engines import lifecycle
from procession.engines.agent import Invitation
from procession.engines.clocks import Clocks
from procession.engines.contract import (
    AgentCommand,
    EngineError,
    EngineEvent,
    EngineGone,
    Said,
    SlotGone,
)
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
from procession.engines.link import Link
from procession.engines.meeting import listen, make_room, own_addresses
from procession.engines.outcome import NodePart, facts_of_failure, job_end
from procession.engines.plain import group_end, rank_end
from procession.engines.printer import Printer
from procession.engines.pump import CREDIT
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
from procession.values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.engines.contract import Engine
    from procession.events import Event

LEASE = 5.0  # seconds without a word after which either side takes the other for lost
BEATS = 5  # in one lease
FENCE = 2.0  # seconds from the loss of a node to the next attempt
GREETING = 10.0  # seconds in which whoever connects must prove that it is an agent
STRANGERS = 64  # connections that have not proved it yet
FAREWELL = 3.0  # seconds for agents to go when they are told to; then the engine kills them
MARGIN = 5.0  # seconds beyond all deadlines of a group, for its agent's own work
ENGINE_PATIENCE = 30.0  # seconds that an engine may take to give everything back


class AgentRecord(Record):
    """What is known of the agent in a slot. owed: bytes that were shown since it was told so."""

    slot: int
    link: Link
    host: str
    pid: int
    clocks: Clocks
    owed: int = 0


class Driver:
    """Runs one job. `run` returns when it has ended, and `end` then says how.

    notes: about the whole, for the report. said: what the engine said last.
    """

    def __init__(
        self,
        work: Work,
        engine: Engine,
        *,
        lease: float = LEASE,
        losses: int = 0,
        place: str = "",
        on_failure: Callable[[GroupEnd], object] | None = None,
        on_quiet: Callable[[], None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.work = work
        self.engine = engine
        self.life = JobLife.of(work.nodes, max(work.nodes, engine.slots))
        self.end: GroupEnd | None = None
        self.parts: list[NodePart] = []
        self.notes: list[str] = []
        self.said: deque[str] = deque(maxlen=10)
        self.started = Latch()
        self.journal = Journal(lambda _: None)
        self._lease = lease
        self._losses = losses
        self._on_failure = on_failure
        self._place = place
        self._key = secrets.token_bytes(KEY_BYTES)
        self._say = say
        self._agents: dict[int, AgentRecord] = {}
        self._hosts: dict[int, str] = {}  # of slots, also of agents that are gone
        self._strangers: dict[Link, float] = {}
        self._lost_at = 0.0
        self._delay = 0.0
        self._running_since = 0
        self._restarts: Any = None
        self._lost_count = 0
        self._stop_how: dict[str, Any] = {}
        self._address = ("", 0)
        self._last_end: GroupEnd | None = None
        self._engine_gone = ""
        self._replacing: set[int | None] = set()  # slots for which the engine was asked just now
        self._cut = False
        self._patient = False
        self._loop = EventLoop()
        self._actions: deque[lifecycle.Action] = deque()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        try:
            make_room(self.life.count)
            self._addresses = own_addresses()
            self._listener = listen()
        except BaseException:
            self._loop.close()
            raise
        self._listener.setblocking(False)
        self._printer = Printer(self._was_shown, on_quiet)
        self._engine_thread = threading.Thread(
            target=self._serve_engine, name="procession-engine", daemon=True
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
                self._tell(slot, "signal", number=number, only_caught=only_caught)

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

    # -- the loop

    def run(self) -> None:
        """Run the job to its end. Leaves nothing open, whatever happens."""
        try:
            self._loop.watch(self._listener.fileno(), self._accept)
            self._engine_thread.start()
            self._note_phase()
            self._do(self.life.begin())
            invitation = Invitation(
                at=tuple((each, self._listener.getsockname()[1]) for each in self._addresses),
                key=self._key,
                lease=self._lease,
                slot=0,
            )
            command = AgentCommand(
                (sys.executable, "-m", "procession.engines.agent"), invitation.variables()
            )
            self._ask_engine(lambda: self.engine.start(command, self._engine_tells))
            self._beat()
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
            self._tell(action.slot, "meet", attempt=self.life.attempt)
        elif isinstance(action, Launch):
            self._launch(action)
        elif isinstance(action, Stop):
            for slot in action.slots:
                self._tell(
                    slot,
                    "stop",
                    attempt=self.life.attempt,
                    kill=action.kill,
                    failed=action.failed,
                    cut=self._cut,
                    **({} if action.failed else self._stop_how),
                )
        elif isinstance(action, Replace):
            self._replacing.add(action.slot)
            self._ask_engine(lambda: self.engine.replace(action.slot), action.slot)
        elif isinstance(action, Drop):
            for slot in action.slots:
                self._agents[slot].link.lose("it did not end its ranks in time")
        elif isinstance(action, Decide):
            self._decide()
        elif isinstance(action, Arm):
            self._arm(action.deadline)
        else:
            assert isinstance(action, End)

    def _arm(self, deadline: Deadline) -> None:
        stop = self.work.spec.stop
        grace = self._stop_how.get("grace") or stop.grace
        notice = self._stop_how.get("notice") or stop.notice
        patience = stop.patience or 0.0
        seconds = {
            DeadlineKind.GATHER: self.work.spec.hang.start,
            DeadlineKind.STOP: notice + grace + stop.reap + patience + MARGIN,
            DeadlineKind.KILL: stop.reap + MARGIN,
            DeadlineKind.BACKOFF: self._delay,
        }[deadline.kind]
        self._loop.after(deadline.kind, seconds, lambda: self._handle(deadline))

    # -- agents

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                return  # no descriptor is left, or it has gone already: it will come again
            if len(self._strangers) >= STRANGERS + self.life.count:
                sock.close()
                continue
            self._greet(sock)

    def _greet(self, sock: socket.socket) -> None:
        link: Link

        def take(message: Message) -> None:
            self._strangers.pop(link, None)
            if message.kind == "hello":
                self._join(link, message)

        def lost(_: str) -> None:
            self._strangers.pop(link, None)

        link = Link(self._loop, sock, self._key, "driver", take, lost)
        self._strangers[link] = time.monotonic()

    def _join(self, link: Link, message: Message) -> None:
        from procession import __version__

        slot, host = int(message.fields["slot"]), str(message.fields["host"])
        if not 0 <= slot < self.life.count or self.life.slots[slot] is not Slot.AWAITED:
            link.send("bye", {})
            link.close()
            return
        if message.fields["version"] != __version__:
            self._announce(
                f"{host} has procession {message.fields['version']}, and this is {__version__}"
            )
        agent = AgentRecord(slot, link, host, int(message.fields["pid"]), Clocks())
        self._agents[slot] = agent
        self._hosts[slot] = host
        link.on_message(lambda m: self._take(agent, m))
        link.on_lost(lambda why: self._lose(slot, why))
        link.send("welcome", {})
        link.send("beat", {"at": time.monotonic_ns()})
        self._note("joined", slot)
        self._handle(Happened(SlotEvent.JOINED, slot))

    def _lose(self, slot: int, why: str) -> None:
        """Take note that the agent of a slot is gone, or unreachable."""
        agent = self._agents.pop(slot, None)
        if agent is None and self.life.slots[slot] is Slot.GONE:
            return
        heard = agent.link.heard_at if agent is not None else time.monotonic()
        if agent is not None:
            agent.link.close()
        node = self.life.node_of(slot)
        if node is not None and self.life.slots[slot] is Slot.BUSY:
            part = self.parts[node]
            part.lost, part.lost_at = why, int(heard * 1e9)
            self._lost_at = time.monotonic()
            self._note("node_lost", slot, why)
            self._announce(f"node {node} ({part.host}) is lost: {why}; all ranks are ended")
        self._handle(Happened(SlotEvent.GONE, slot))

    def _tell(self, slot: int, kind: str, **fields: Any) -> None:
        agent = self._agents.get(slot)
        if agent is not None:
            agent.link.send(kind, fields)

    def _take(self, agent: AgentRecord, message: Message) -> None:
        fields, slot = message.fields, agent.slot
        if message.kind == "pulse":
            agent.clocks.take(fields["at"], fields["own"], time.monotonic_ns())
            return
        if message.kind == "log":
            self._printer.show(int(fields["stream"]), message.blob, agent)
            return
        if message.kind == "signal":
            self._signalled(slot, int(fields["number"]))
            return
        if fields.get("attempt") != self.life.attempt:
            return
        if message.kind == "met":
            self._address = str(fields["address"]), int(fields["port"])
            self._handle(Met(self.life.attempt))
            return
        node = self.life.node_of(slot)
        if node is None or self.life.slots[slot] is not Slot.BUSY:
            return
        part = self.parts[node]
        if message.kind == "ready":
            self._handle(Happened(SlotEvent.READY, slot))
        elif message.kind == "failed":
            part.failed = rank_end(fields["end"])
            failed = part.failed.__replace__(rank=node * self.work.nproc + part.failed.rank)
            self._note("rank_failed", slot, facts=facts_of_failure(failed))
            self._handle(Happened(SlotEvent.FAILED, slot))
        elif message.kind == "value":
            part.values[int(fields["rank"])] = message.blob
        elif message.kind == "ended":
            part.end = group_end(fields["end"])
            part.state = str(fields["state"])
            part.stacks, part.told = fields["stacks"], fields["told"]
            part.failed = None
            ok = part.state in ("SUCCEEDED", "STOPPED") and not part.end.failures
            self._handle(Happened(SlotEvent.ENDED, slot, ok=ok))

    def _signalled(self, slot: int, number: int) -> None:
        """An agent got a signal: what it means is for whoever runs the driver to say."""
        self._note("signalled", slot, facts={"signal": number})
        if self.on_signal is not None:
            self.on_signal(number, self._hosts[slot])

    on_signal: Callable[[int, str], None] | None = None

    def _beat(self) -> None:
        """Tell every agent that we are here, and look who has not been heard of."""
        now = time.monotonic()
        stalled = now - getattr(self, "_beat_at", now) > self._lease
        self._beat_at = now
        for slot, agent in list(self._agents.items()):
            if now - agent.link.heard_at > self._lease:
                agent.link.look()  # what has come and is not read yet, while much came from others
            silent = now - agent.link.heard_at
            # After a stop of our own, what came meanwhile is read first.
            if silent > self._lease and not stalled and self._agents.get(slot) is agent:
                agent.link.close()
                self._lose(slot, f"it has said nothing for {silent:.1f} s")
            else:
                agent.link.send("beat", {"at": time.monotonic_ns()})
        for link, since in list(self._strangers.items()):
            if now - since > GREETING:
                link.lose("it said nothing")
        self._loop.after("beat", self._lease / BEATS, self._beat)

    def _was_shown(self, blocks: list[tuple[object, int]]) -> None:
        self._loop.request(lambda: self._credit(blocks))

    def _credit(self, blocks: list[tuple[object, int]]) -> None:
        """Let agents send more, when it is worth a message: they still have most of theirs."""
        for agent, count in blocks:
            assert isinstance(agent, AgentRecord)
            agent.owed += count
            if agent.owed >= CREDIT // 4:
                agent.link.send("credit", {"bytes": agent.owed})
                agent.owed = 0

    # -- an attempt

    def _launch(self, action: Launch) -> None:
        address, port = self._address
        blobs: dict[int, bytes] = {}
        self.parts = [
            NodePart(
                node=node,
                host=self._hosts[slot],
                clocks=self._agents[slot].clocks,
                values={},
            )
            for node, slot in enumerate(action.slots)
        ]
        for node, slot in enumerate(action.slots):
            spec = self.work.of(node)
            if id(spec) not in blobs:
                blobs[id(spec)] = pickle.dumps(spec)
            place = Node(
                rank=node,
                count=self.work.nodes,
                address=address,
                port=port,
                role=spec.node.role,
                run_id=spec.node.run_id or self.run_id,
                attempt=action.attempt,
                restarts=self.work.restart.max,
            )
            where = os.path.join(self._place, f"node_{node}") if self._place else ""
            fields = {"attempt": action.attempt, "node": vars(place), "place": where}
            fields |= {"devices": self.work.devices, "gpus": self.work.gpus}
            self._agents[slot].link.send("launch", fields, blobs[id(spec)])

    @property
    def start_failed(self) -> bool:
        """Whether agents were too few, or a rank could not be started."""
        failed = (
            part.failed or (part.end and next(iter(part.end.failures), None)) for part in self.parts
        )
        return self.life.missing or any(
            end is not None and end.outcome is Outcome.NOT_STARTED for end in failed
        )

    @property
    def run_id(self) -> str:
        """What the job is called."""
        return os.path.basename(self._place) or self.work.spec.name

    def _note_phase(self) -> None:
        if self.life.phase is JobPhase.RUNNING:
            self._running_since = time.monotonic_ns()
        if self.life.phase not in (JobPhase.GATHERING, JobPhase.MEETING, JobPhase.STARTING):
            self.started.set()
        if self.life.phase not in (JobPhase.MEETING, JobPhase.DECIDING):
            facts = self._facts_of_phase()
            self.journal.note(self.life.phase.name.lower(), None, self.life.attempt, facts=facts)

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
        told = {"host": self._hosts.get(slot, ""), "slot": slot, **facts}
        told |= {} if node is None else {"of_node": node}
        self.journal.note(kind, None, self.life.attempt, detail=detail, facts=told)

    def _end_of_attempt(self, notes: list[str]) -> GroupEnd:
        spec = self.work.spec
        return job_end(
            spec.name,
            spec.nproc,
            self.work.nodes,
            self.life.attempt,
            self.parts,
            notes,
            self._place,
        )

    def _decide(self) -> None:
        end = self._last_end = self._end_of_attempt([])
        again = False
        if not self.life.stop_wanted and end.failures:
            again = self._starts_again(end)
        fence = self._lost_at + FENCE - time.monotonic() if self._lost_at else 0.0
        self._delay = max(self._delay, fence, 0.0)
        self._handle(Decided(self.life.attempt, again))

    def _starts_again(self, end: GroupEnd) -> bool:
        from procession.report import format_seconds, headline
        from procession.restarting import Restarts, codes_of, place_of

        attempt, cause = self.life.attempt, end.failures[0]
        if self._on_failure is not None:
            try:
                if self._on_failure(end) is False:
                    self.notes.append("not started again: on_failure said so")
                    return False
            except Exception as e:
                self.notes.append(f"not started again: on_failure raised {type(e).__name__}: {e}")
                return False
        if cause.outcome is Outcome.NODE_LOST:
            self._lost_count += 1
            if self._lost_count > self._losses:
                if self._losses:
                    self.notes.append(
                        f"not started again: {self._losses} nodes were lost before, which is the "
                        "most"
                    )
                return False
            self._delay = 0.0
        else:
            if self._restarts is None:
                self._restarts = Restarts(self.work.restart)
            uptime = None
            if self._running_since:
                uptime = (cause.happened_at - self._running_since) / 1e9
            decided = self._restarts.decide(
                time.monotonic(), uptime, place_of(cause), codes_of(end), None
            )
            self._delay = decided.delay
            if not decided.again:
                if decided.why:
                    self.notes.append(f"not started again: {decided.why}")
                return False
        self._running_since = 0
        head = f"attempt {attempt} failed: {headline(cause, end.nproc)}"
        self.notes.append(head)
        wait = f" in {format_seconds(self._delay)}" if self._delay >= 0.05 else ""
        self._announce(f"{head}; attempt {attempt + 1} starts{wait}")
        return True

    def _announce(self, text: str) -> None:
        if self._say is not None:
            self._say(text)

    # -- the engine

    def _serve_engine(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job()

    def _ask_engine(self, call: Callable[[], None], slot: int | None = None) -> None:
        """Have the engine do something; if it cannot, nobody comes to this slot, or to any."""

        def do() -> None:
            try:
                call()
            except Exception as e:
                text = str(e) if isinstance(e, EngineError) else f"{type(e).__name__}: {e}"
                gone = EngineGone(text) if slot is None else SlotGone(slot, text)
                self._loop.request(lambda: self._replacing.discard(slot))
                self._engine_tells(gone)
            self._loop.request(lambda: self._replacing.discard(slot))

        self._jobs.put(do)

    def _engine_tells(self, event: EngineEvent) -> None:
        self._loop.request(lambda: self._engine_told(event))

    def _engine_told(self, event: EngineEvent) -> None:
        if isinstance(event, Said):
            self.said.append(event.text)
            self._announce(f"{self.engine.name}: {event.text}")
            return
        if isinstance(event, SlotGone):
            if event.slot in self._replacing:
                return  # late news of the agent that is being replaced
            self.said.append(event.why)
            self._lose(event.slot, event.why)
            return
        self._engine_gone = event.why
        self.said.append(event.why)
        for slot, state in enumerate(self.life.slots):
            if state is Slot.AWAITED and not self.life.phase.final:
                self._handle(Happened(SlotEvent.GONE, slot))

    # -- the end

    def _conclude(self) -> None:
        self.journal.tell()
        self.end = self._final_end()
        for agent in self._agents.values():
            agent.link.send("bye", {})
        self._farewell()
        if not self._printer.close(None if self._patient and not self._cut else 2.0):
            note = "the console did not take all output in time; the rest was cut off"
            self.end = self.end.__replace__(notes=(*self.end.notes, note))

    def _final_end(self) -> GroupEnd:
        notes = list(self.notes)
        if self.life.missing:
            if self._last_end is not None:
                notes.append(self._missing())
                return self._last_end.__replace__(notes=(*self._last_end.notes, *notes))
            cause = RankEnd(
                rank=0,
                pid=None,
                outcome=Outcome.NOT_STARTED,
                message=f"could not be started, nor any other rank: {self._missing()}",
                happened_at=time.monotonic_ns(),
            )
            world = self.work.nproc * self.work.nodes
            return GroupEnd(self.work.spec.name, world, failures=(cause,), notes=tuple(notes))
        if not self.parts:
            return GroupEnd(self.work.spec.name, self.work.nproc * self.work.nodes)
        last = self._last_end
        if last is not None and last.attempt == self.life.attempt:
            return last.__replace__(notes=(*notes, *last.notes))
        return self._end_of_attempt(notes)

    def _missing(self) -> str:
        there = sum(s in (Slot.IDLE, Slot.BUSY) for s in self.life.slots)
        why = f": {self.said[-1]}" if self.said else ""
        if not self.said and not self._engine_gone:
            why = f" within {self.work.spec.hang.start:g} s"
        return f"{there} of {self.work.nodes} agents came{why}"

    def _farewell(self) -> None:
        """Let agents go, then have the engine end what is left, and give everything back."""
        over: list[bool] = []
        self._loop.after("farewell", FAREWELL, lambda: over.append(True))
        while self._agents and not over:
            self._loop.turn()
        done = Latch()

        def end() -> None:
            try:
                # Who is lost may still be there.
                if self._agents or any(s in (Slot.AWAITED, Slot.GONE) for s in self.life.slots):
                    self.engine.kill()
            except Exception as e:
                self.said.append(str(e))
            try:
                self.engine.close()
            except Exception as e:
                self.said.append(str(e))
            done.set()

        self._jobs.put(end)
        self._jobs.put(None)
        done.wait(ENGINE_PATIENCE)

    def close(self) -> None:
        """Give everything back."""
        for link in [*(a.link for a in self._agents.values()), *self._strangers]:
            link.close()
        self._agents.clear()
        self._listener.close()
        self._printer.close(0.0)
        self._jobs.put(None)
        self._loop.close()
        self.started.set()
        self.journal.wake()


__all__ = ["FENCE", "LEASE", "Driver"]
