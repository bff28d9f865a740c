"""The driver of a group on several machines, each with a node process.

Theory of operation. Wait -> event -> `JobLife.handle` -> do. One epoll waits for the links to node
processes, for new ones, and for requests of other threads; the engine has a thread of its own,
since engines block. What is known of the run stands in `jobstate`, and messages of node processes
are read in `nodeevents`.

Each node process holds a lease on the driver, and the driver on each node process (see
`nodelinks`). A node that was lost may run for a moment longer, until its own lease ends; so no
attempt begins within `FENCE` of a loss. What an engine says about a node process counts only until
that node process has come: the link is quicker and more reliable.

Each machine has its own clock: heartbeats show how far it is from ours (see `Clocks`), and failures
are put in order by our clock.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from procession.agent.boot import own_python
from procession.driver.jobstate import JobState, NodeRecord, interfaces_of
from procession.driver.nodeevents import WORKING, NodeEvents
from procession.driver.nodelinks import NodeLinks
from procession.engines.addresses import say_interfaces, unset
from procession.engines.contract import (
    DRIVER,
    JOB,
    NODE_PROCESS,
    EngineEvent,
    Invitation,
    NodeCommand,
    Said,
)
from procession.engines.enginethread import EngineThread
from procession.engines.signalled import orderly_sigterm
from procession.engines.will import Will
from procession.rules.jobwords import (
    Action,
    Decide,
    Decided,
    Dismiss,
    Drop,
    Happened,
    JobDeadline,
    JobDeadlineKind,
    JobPhase,
    JobStop,
    JobStopWanted,
    Launch,
    Meet,
    Replace,
    Slot,
    SlotEvent,
)
from procession.rules.jobwords import Event as LifeEvent
from procession.rules.restarting import Decision
from procession.system.threads import Latch
from procession.values.environment import Node
from procession.values.errors import GroupEnd, Outcome, SpecError
from procession.values.policy import StopRequest

LEASE = 5.0  # seconds of silence after which either side takes the other for lost
FENCE = 2.0  # seconds from the loss of a node to the next attempt
FAREWELL = 3.0  # seconds for node processes to leave; then the engine kills them
MARGIN = 5.0  # seconds beyond all deadlines of a group, for its node process's own work
SETTLE = 0.5  # seconds for further nodes, when one came or went in an elastic job
LAST_GRACE = 1.0  # seconds for ranks to end, where other machines may soon go on with the job
SAID_AFTER = (5.0, 25.0, 90.0)  # seconds between two lines that nodes are missing
BEFORE = (JobPhase.GATHERING, JobPhase.MEETING, JobPhase.STARTING)


class JobDriver(JobState):
    """Runs a group on several machines."""

    # -- from other threads

    def request_stop(self, request: StopRequest) -> None:
        """Ask for the end of the job; see `Group.stop`. kill: and show no more output."""

        def take() -> None:
            self._stop_how |= {**request.changes, "stacks": request.stacks}
            self._hurry |= request.kill or self.life.phase.final
            self._handle(JobStopWanted(request.kill))

        self.loop.request(take)

    def request_signal(self, rank: int | None, number: int, only_caught: bool = False) -> None:
        """Have a rank sent a signal, by its number in the job; None: each of them."""
        fields: dict[str, Any] = {"number": number, "only_caught": only_caught}

        def take() -> None:
            node = None
            if rank is not None:
                node, fields["rank"] = self.work.locate(rank)
            for slot, at in self.busy.items():
                if node in (None, at):
                    self.tell(slot, "signal", fields)

        self.loop.request(take)

    def request_suspension(self) -> None:
        """Refuse: clocks on other machines do not stand still. Raises SpecError."""
        raise SpecError("a group on several machines cannot be suspended")

    def waited_for(self, done: Latch) -> AbstractContextManager[None]:
        """Have SIGTERM to this program stop the run first."""
        stop, ended = self.request_stop, done.wait
        return orderly_sigterm(lambda: stop(StopRequest()), lambda: ended(self.longest()))

    @property
    def start_failed(self) -> bool:
        """Whether node processes were too few, or a rank could not be started."""
        return self.life.missing or self.failed_by(Outcome.NOT_STARTED)

    @property
    def losses(self) -> list[str]:
        """What of output and records is lost, one line each."""
        faults = *self.display.faults, self.journal.late, self.files.fault
        return [each for each in faults if each]

    # -- the loop

    def begin_run(self) -> None:
        """Have node processes started, and wait for them."""
        self._delay = 0.0
        self._stop_how: dict[str, Any] = {}
        self._actions: deque[Action] = deque()
        self._node_events = NodeEvents(self, self._handle)
        self._engine = EngineThread(self.engine, self.loop, self._engine_told)
        self._links = NodeLinks(self, self._node_events)
        self.note_phase()
        self._carry_out_all(self.life.begin_job())
        port = self.door.getsockname()[1]
        at = tuple((each, port) for each in self.addresses)
        invitation = Invitation(at, self.key, slot=0)
        argv = tuple(own_python(NODE_PROCESS))
        self._links.watch(self.door)
        known = {JOB: self.run_id, DRIVER: os.uname().nodename}
        if self.reception is not None:
            self._say_missing()
        self._engine.start(NodeCommand(argv, {**invitation.variables(), **known}))

    def _say_missing(self, after: tuple[float, ...] = SAID_AFTER) -> None:
        """Say now and then that nodes are missing that are to come by themselves.

        after: seconds until the next line, and those after it; the last of them again and again.
        """

        def say() -> None:
            there, needs = self.life.tally[Slot.IDLE], self.life.least
            if self.life.phase is not JobPhase.GATHERING:
                return
            if there < needs:
                self.announce(f"{there} of {needs} machines came; waiting for the others")
            self._say_missing(after[1:] or after)

        self.loop.after("missing", after[0], say)

    def _handle(self, event: LifeEvent) -> None:
        before, missing = (self.life.phase, self.life.attempt), self.life.missing
        actions = self.life.handle(event)
        if self.life.missing and not missing:
            self.late = isinstance(event, JobDeadline) and event.kind is JobDeadlineKind.GATHER
        if (self.life.phase, self.life.attempt) != before:
            if self.life.changed and before[0] in WORKING:
                self.announce(self.say_change())
            if self.life.phase is JobPhase.GATHERING and self.reception is not None:
                self._say_missing()
            if self.life.phase is not JobPhase.STARTING:  # it is noted when sizes are known
                self.note_phase()
            if self.life.phase is JobPhase.RUNNING:
                self.running_since = time.monotonic_ns()
            if self.life.phase not in BEFORE:
                self.started.set()
        self._carry_out_all(actions)

    def _carry_out_all(self, actions: list[Action]) -> None:
        self._actions += actions
        if len(self._actions) > len(actions):
            return  # a call further up carries them out
        while self._actions:
            self._carry_out(self._actions[0])
            self._actions.popleft()

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Meet):
            self.tell(action.slot, "meet", {"attempt": self.life.attempt})
        elif isinstance(action, Launch):
            self._launch(action)
        elif isinstance(action, JobStop):
            self._stop(action)
        elif isinstance(action, Replace):
            self._engine.replace(action.slot)
        elif isinstance(action, Dismiss):
            for slot in action.slots:
                self._links.dismiss(slot)
        elif isinstance(action, Drop):
            for slot in action.slots:
                self._links.drop(slot, "it did not end its ranks in time")
        elif isinstance(action, Decide):
            self._decide()
        else:
            self._arm(action.deadline)

    def _arm(self, deadline: JobDeadline) -> None:
        self.loop.after(
            deadline.kind, self._seconds_of(deadline.kind), lambda: self._handle(deadline)
        )

    def _seconds_of(self, kind: JobDeadlineKind) -> float:
        stop, how, reception = self.work.spec.stop, self._stop_how, self.reception
        if kind is JobDeadlineKind.STOP:
            notice, grace = how.get("notice", stop.notice), how.get("grace", stop.grace)
            return notice + grace + stop.reap + MARGIN
        if kind is JobDeadlineKind.KILL:
            return stop.reap + MARGIN
        if kind is JobDeadlineKind.BACKOFF:
            return self._fence() if self.life.changed else self._delay
        if kind is JobDeadlineKind.GATHER:
            return reception.terms.join if reception is not None else self.work.spec.hang.start
        if reception is None:
            return 0.0
        late = reception.terms.last_call
        return max(min(late, SETTLE), self._fence()) if self.life.attempt else late

    def _stop(self, action: JobStop) -> None:
        fields: dict[str, Any]
        fields = {"attempt": self.life.attempt, "kill": action.kill, "failed": action.failed}
        if self.life.isolated:
            fields["grace"] = min(LAST_GRACE, self.work.spec.stop.grace)
        fields["hung"] = self.failed_by(Outcome.HUNG)
        fields |= {"cut": self._hurry, **({} if action.failed else self._stop_how)}
        for slot in action.slots:
            self.tell(slot, "stop", fields)

    def tell_debugged(self, *, debugs: bool) -> None:
        """Tell whether some rank is stopped by its debugger."""
        for slot in self.busy:
            self.tell(slot, "debugged", {"debugs": debugs})

    # -- the engine

    def _engine_told(self, event: EngineEvent) -> None:
        if isinstance(event, Said):
            self.said.append(event.text)
            self.announce(f"{self.engine.name}: {event.text}")
            return
        self.said.append(event.why)
        for slot in range(self.life.count) if event.slot is None else (event.slot,):
            if self.life.slots[slot] is Slot.AWAITED:
                self._handle(Happened(SlotEvent.GONE, slot))

    # -- an attempt

    def _launch(self, action: Launch) -> None:
        nodes = [self.nodes[slot] for slot in action.slots]
        sizes = tuple(node.nproc for node in nodes) if self.reception is not None else ()
        work = self.work = self.work.__replace__(nodes=len(nodes), sizes=sizes)
        self.spec = work.whole
        if sizes:
            self.display.prefixes = work.prefixes()
        self.begin_attempt(nodes, named=self.reception is not None)
        self.note_phase()
        # An elastic job goes on with other nodes, without a restart.
        last = self.recovery.none_left and self.life.least == self.life.most
        names = interfaces_of(nodes)
        text = say_interfaces(work.spec, names, unset())
        if text and self.reception is None and not self.life.attempt:
            self.say(f"procession: {text}")
        for slot, fields, blob in self._orders(nodes, names, last=last):
            self.tell(slot, "launch", fields, blob)
        for slot, node in self.nodes.items():
            if slot not in action.slots:
                self._node_events.is_spare(node)

    def _orders(
        self, nodes: Sequence[NodeRecord], interfaces: Sequence[str], *, last: bool
    ) -> Iterator[tuple[int, Any, bytes]]:
        """Give what nodes are sent when an attempt begins: slot, fields and blob of each message.

        interfaces: of each node, see `interfaces`. last: whether no other attempt follows, whatever
        happens; see `nodeprocess`.
        """
        work = self.work
        heirs = [node.heir for node in nodes if node.heir is not None]
        will = Will(tuple(heirs), self.life.attempt, self.life.regrouped).plain()
        blobs: dict[int, bytes] = {}
        specs = self.reception is None  # else they know what they run
        for node, record in enumerate(nodes):
            spec = work.of(node)
            if specs and id(spec) not in blobs:
                blobs[id(spec)] = pickle.dumps(spec)
            place = Node(
                rank=node,
                count=work.nodes,
                address=self.address[0],
                port=self.address[1],
                role=spec.node.role,
                run_id=spec.node.run_id or self.run_id,
                job=self.run_id,
                attempt=self.life.attempt,
                restarts=work.spec.restart.max,
                regrouped=self.life.regrouped,
                number=work.first(node) if work.sizes else None,
                world=sum(work.sizes),
            )
            fields = {
                "attempt": self.life.attempt,
                "node": vars(place),
                "place": os.path.join(self.place, f"node_{node}") if self.place else "",
                "devices": work.devices,
                "gpus": work.gpus,
                "last": last,
                "interface": interfaces[node],
            }
            if len(heirs) == len(nodes):  # all have said who they are
                fields["will"] = will
            yield record.slot, fields, blobs.get(id(spec), b"")

    def _decide(self) -> None:
        attempt = self.life.attempt
        end = self.last = self.end_of_attempt()
        final = self.life.stop_wanted or self.life.isolated or not self.may_recover
        if final or not self.recovery.concerns(end):
            self._handle(Decided(attempt, again=False))
        else:
            self.decide(lambda: end, partial(self._decided, attempt))

    def _decided(self, attempt: int, end: GroupEnd, decided: Decision) -> None:
        if self.life.phase is not JobPhase.DECIDING or self.life.attempt != attempt:
            return  # the answer came too late
        self._delay = max(decided.delay, self._fence())
        if decided.again:
            self.say_unshown(end)
        if said := self.recovery.note_decision(decided.__replace__(delay=self._delay), end, None):
            self.announce(said)
        self._handle(Decided(attempt, decided.again))

    def _fence(self) -> float:
        """Give the seconds until a node that was lost has certainly ended its ranks."""
        lost_at = self.lost_at
        return max(0.0, lost_at + FENCE - time.monotonic()) if lost_at else 0.0

    # -- the end

    def conclude(self) -> GroupEnd:
        """Show what is left to show, and say how the group ended."""
        self.journal.publish()
        end = self.final_end(self.notes)
        end = end.__replace__(notes=(*end.notes, *self.journal.wait_until_written()))
        # Node processes that are lost, or have not come, may still run, or start later.
        doubtful = any(s in (Slot.AWAITED, Slot.GONE) for s in self.life.slots)
        words = self.reception.last_words(end) if self.reception is not None else {}
        for slot in self.nodes:
            spare = bool(self.life.places) and self.life.node_of(slot) is None
            self.tell(slot, "bye", {**words, "spare": True} if spare else words)
        self._farewell(doubtful)
        return end.__replace__(notes=(*end.notes, *self._drain()))

    def _farewell(self, doubtful: bool) -> None:
        """Wait for node processes to leave, then have the engine give everything back.

        doubtful: some node processes may be left, so the engine kills first.
        """
        over: list[bool] = []
        seconds = self.reception.terms.close if self.reception is not None else FAREWELL
        self.loop.after("farewell", seconds, lambda: over.append(True))
        while self.nodes and not over:
            self.loop.turn()
        self.said += self._engine.finish(kill=doubtful or bool(self.nodes))

    def close(self) -> None:
        """Give everything back."""
        self._links.close()
        self.door.close()
        self.display.close()
        self._engine.close()
        super().close()
        self.files.close()
