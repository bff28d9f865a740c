"""What the driver of a job knows of it, also by asking its node processes.

It is written as orders, as events, as what others ask for, and as the end of the job.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from procession.driver.driver import MARGIN, Driver
from procession.driver.jobend import Clocks, NodePart, cause_of, job_end, ranks_of
from procession.driver.reception import Reception
from procession.engines.addresses import interface_of, listen, make_room, own_addresses
from procession.engines.contract import Engine
from procession.engines.link import NodeLink
from procession.engines.pump import CREDIT
from procession.engines.will import Heir
from procession.engines.wire import KEY_BYTES
from procession.explain.ends import (
    facts_of_failure,
    facts_of_start,
    facts_of_stop,
    none_started,
)
from procession.output.rundir import RunFiles, run_of
from procession.output.wiring import Display
from procession.prepare.work import Work
from procession.rules.joblife import JobLife
from procession.rules.jobwords import JobPhase, Slot
from procession.rules.tables import Phase
from procession.system.threads import Latch
from procession.values.base import Record
from procession.values.errors import Exit, GroupEnd, Outcome
from procession.values.events import NO_FACTS
from procession.values.program import Program

Look = dict[str, Any]

SHOWN = 8  # hosts that are named in the message that others did not come
LOOK_SECONDS = 0.5  # for node processes to look at their ranks
ON_THE_WAY = 0.5  # seconds for answers to come over the network


class NodeRecord(Record):
    """What is known of a node process.

    order, nproc: where nodes come by themselves, by which they are put in order, and how many ranks
    each has. heir: how others find it if it takes over. peer: its address, "" on this machine.
    reached: our own address on its link. interface: that of its link, "" if unknown. owed: bytes of
    its output shown since its last credit.
    """

    slot: int
    link: NodeLink
    host: str
    pid: int
    python: str
    clocks: Clocks
    order: tuple[Any, ...] = ()
    nproc: int = 0
    heir: Heir | None = None
    peer: str = ""
    reached: str = ""
    interface: str = ""
    owed: int = 0


class Question(Record):
    """A question to node processes. slots: the node of each slot that has not answered yet."""

    slots: dict[int, int]
    answers: dict[int, Any]
    done: Latch

    def drop(self, slot: int) -> None:
        """Wait no longer for a slot."""
        self.slots.pop(slot, None)
        if not self.slots:
            self.done.set()


class JobState(Driver):
    """The part of a job's driver that knows; its parts share it. For the thread of the loop.

    What `Driver` has for any thread is for any thread.

    lease: seconds of silence after which a node process is lost. encrypted: whether links must be.
    key: of all links. door: at which node processes come; addresses: where it is. place: the
    directory of its files, "" for none. nodes: the node processes that are there, by slot. parts:
    of this attempt, by node. machines: the hosts of slots, also where node processes are gone.
    said: what the engine said last. encryption: what protects links to node processes, in words.
    address: where ranks of this attempt meet, as node 0 has chosen. active_at: when a rank anywhere
    wrote last. lost_at: when a node was lost last, in seconds, 0 for never. late: not all node
    processes came in time. reception: where they come by themselves, else None. last: the end of
    the last attempt about which a restart was decided. follower: shows their output.
    """

    distant = True
    life: JobLife

    def __init__(
        self,
        work: Work,
        engine: Engine,
        *,
        lease: float,
        encrypted: bool,
        on_failure: Callable[[GroupEnd], object] | None,
        files: RunFiles,
        reception: Reception | None,
    ) -> None:
        around = files, Display(work.prefixes()), run_of(files.path), on_failure
        super().__init__(work.whole, *around)
        self.work = work
        self.engine = engine
        self.lease = lease
        self.encrypted = encrypted
        self.reception = reception
        self.life = JobLife.of(
            work.nodes,
            max(work.nodes, engine.slots),
            replaces=bool(work.spec.restart.node_losses),
            least=reception.terms.least if reception is not None else None,
            open=reception is not None,
            elects=reception is not None and reception.elects,
            sealed=reception is not None and bool(reception.sealed),
        )
        self.place = files.path if files.kept else ""
        self.key = reception.trust.key if reception is not None else secrets.token_bytes(KEY_BYTES)
        self.nodes: dict[int, NodeRecord] = {}
        self.parts: list[NodePart] = []
        self.machines: dict[int, str] = {}
        self.said: deque[str] = deque(maxlen=10)
        self.encryption: tuple[str, ...] = ()
        self.address: tuple[str, int] = ("", 0)
        self.active_at = time.monotonic_ns()
        self.lost_at = 0.0
        self.late = False
        self.last: GroupEnd | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, Question] = {}
        will = reception.inherits if reception is not None else None
        if will is not None:  # go on where the host that was lost had come to
            self.life.inherit(will.attempt + 1, will.regrouped + 1, len(will.world))
            self.lost_at = will.lost_at
            self.recovery.count(will.restarts)
        try:
            make_room(self.life.count)
            self.display.on_shown = self._was_shown
            self.display.open_consoles()
            self.follower = self.display.get_follower()
            self.addresses = own_addresses()
            self.door = reception.door if reception is not None else listen()
        except BaseException:
            self.display.close()
            self.loop.close()
            raise

    @property
    def busy(self) -> dict[int, int]:
        """The slots that have ranks, with their nodes."""
        return {slot: self.life.node_at[slot] for slot in self.life.busy}

    # -- to people, and to node processes

    def announce(self, text: str) -> None:
        """Show people a line; where nodes have launchers of their own, on all of them."""
        self.say(f"procession: {text}")
        if self.reception is not None:
            for slot in self.nodes:
                self.tell(slot, "say", {"text": text})

    def tell(self, slot: int, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        """Send a message; a node process that is gone gets none."""
        node = self.nodes.get(slot)
        if node is not None:
            node.link.send(kind, fields, blob)

    def _was_shown(self, blocks: list[tuple[object, int]]) -> None:
        self.loop.request(lambda: self._credit(blocks))

    def _credit(self, blocks: list[tuple[object, int]]) -> None:
        """Give node processes credit to send more output, once it is worth a message."""
        for node, count in blocks:
            assert isinstance(node, NodeRecord)
            node.owed += count
            if node.owed >= CREDIT // 4:
                node.link.send("credit", {"bytes": node.owed})
                node.owed = 0

    def ask(self, about: str, seconds: float, /, **given: Any) -> dict[int, Any]:
        """Ask all node processes that have ranks, in any thread but the loop's.

        Gives their answers by node rank, without those that are gone or too late. seconds: for
        node processes to find an answer; it may take a little longer to come.
        """
        question = Question({}, {}, Latch())
        number = next(self._numbers)

        def begin() -> None:
            question.slots.update(self.busy)
            self._questions[number] = question
            for slot in list(question.slots):
                self.tell(slot, "ask", {"id": number, "about": about, **given})
            question.drop(-1)

        if self.loop.request(begin):
            question.done.wait(seconds + ON_THE_WAY)
            self.loop.request(lambda: self._questions.pop(number, None))
        return dict(question.answers)

    def take_answer(self, slot: int, fields: Mapping[str, Any]) -> None:
        """Take an answer. Raises KeyError or ValueError for what is none."""
        question = self._questions.get(int(fields["id"]))
        if question is not None and slot in question.slots:
            question.answers[question.slots[slot]] = fields["value"]
            question.drop(slot)

    def drop_questions(self, slot: int) -> None:
        """Take note that a slot will not answer any more."""
        for question in self._questions.values():
            question.drop(slot)

    def begin_attempt(self, nodes: Sequence[NodeRecord], *, named: bool) -> None:
        """Begin an attempt with the nodes of these node processes. named: see `NodePart`."""
        self.active_at = time.monotonic_ns()
        first, size = self.work.first, self.work.size
        self.parts = [
            NodePart(n, node.host, first(n), size(n), node.clocks, {}, {}, {}, named=named)
            for n, node in enumerate(nodes)
        ]

    def beat(self) -> dict[str, Any]:
        """Give what heartbeats contain: for how long no rank has written anything."""
        hang = self.work.spec.hang
        if hang.silence is None and hang.timeout is None:
            return {}
        return {"quiet": max(0, time.monotonic_ns() - self.active_at)}

    # -- as events

    def note_phase(self) -> None:
        """Note that the job is in another phase."""
        phase = self.life.phase
        if phase not in (JobPhase.MEETING, JobPhase.DECIDING):
            facts = self._facts_of_phase()
            self.journal.note(phase.name.lower(), None, self.life.attempt, facts=facts)

    def say_change(self) -> str:
        """Say that a node came or went, while ranks are ended for that."""
        life = self.life
        there = life.tally[Slot.IDLE] + life.tally[Slot.BUSY] - len(life.leaving)
        how = "left" if life.leaving else "went" if life.lost else "came"
        return f"a node {how}: all ranks start again, with {there} nodes"

    def _facts_of_phase(self) -> Mapping[str, Any]:
        if self.life.phase is JobPhase.STARTING:
            sizes = [self.work.size(node) for node in range(self.work.nodes)]
            return {**facts_of_start(self.work.whole, self.run_id), "sizes": sizes}
        if self.life.phase is JobPhase.FAILED:
            return facts_of_failure(self.final_end(()).failures[0])
        if self.life.phase is JobPhase.STOPPED:
            return facts_of_stop(self.final_end(()).stacks)
        return {}

    def note(
        self, kind: str, slot: int, detail: str = "", facts: Mapping[str, Any] = NO_FACTS
    ) -> None:
        """Note what happened to a slot."""
        node = self.life.node_of(slot)
        about = {"host": self.machines.get(slot, ""), "slot": slot, **facts}
        about |= {} if node is None else {"of_node": node}
        self.journal.note(kind, None, self.life.attempt, detail=detail, facts=about)

    # -- as the end

    def failed_by(self, outcome: Outcome) -> bool:
        """Whether this is the first failure of any node in this attempt, as far as is known."""
        first = [part.failure for part in self.parts]
        return any(end is not None and end.outcome is outcome for end in first)

    def end_of_attempt(self, notes: Sequence[str] = ()) -> GroupEnd:
        """Say how this attempt ended."""
        spec, work = self.work.spec, self.work
        attempt = self.life.attempt
        if self.life.isolated:
            notes = (*notes, f"it does not continue here: {self._apart()} [P419]")
        end = job_end(spec.name, work.world, attempt, self.parts, notes, self.place)
        # The change that ended this attempt is counted already, if it is over.
        return end.__replace__(regrouped=min(attempt, self.life.regrouped))

    def final_end(self, notes: Sequence[str]) -> GroupEnd:
        """Say how the job ended. notes: about restarts."""
        last, name = self.last, self.work.spec.name
        world = self.work.world
        if self.life.missing and last is None:
            cause = none_started(self._missing())
            return GroupEnd(name, world, failures=(cause,), notes=tuple(notes))
        if self.life.missing and last is not None:
            return last.__replace__(notes=(*last.notes, *notes, self._missing()))
        if last is not None and last.attempt == self.life.attempt:
            return last.__replace__(notes=(*notes, *last.notes))
        return self.end_of_attempt(notes) if self.parts else GroupEnd(name, world)

    def _apart(self) -> str:
        """Say that others may go on."""
        world = next(world for world in self.life.worlds if not world.holds)
        return (
            f"{len(world.there)} of the last {world.size} machines are in contact, and the others "
            "may go on"
        )

    def _missing(self) -> str:
        """Say which node processes came, where some did not."""
        if self.life.isolated:
            return self._apart()
        there = [s for s, state in enumerate(self.life.slots) if state in (Slot.IDLE, Slot.BUSY)]
        reception = self.reception
        what = "machines" if reception is not None else "node processes"
        seconds = reception.terms.join if reception is not None else self.work.spec.hang.start
        refused = self.said and not self.life.attempt
        if not self.late and reception is not None and reception.sealed and not refused:
            return f"{len(there)} of {self.life.least} machines are left: {reception.sealed}"
        came = f"{len(there)} of {self.life.least} {what} came"
        if not self.late:
            return f"{came}: {self.said[-1]}" if self.said else came
        # What the engine said last may be about another node.
        hosts = ", ".join(self.machines[slot] for slot in there[:SHOWN])
        more = ", ..." if len(there) > SHOWN else ""
        there_of = f" (of {hosts}{more})" if hosts else ""
        last = f"; {self.engine.name} said last: {self.said[-1]}" if self.said else ""
        absent = reception.absent() if reception is not None else ""
        return f"{came}{there_of} within {seconds:g} s{f'; {absent}' if absent else last}"

    # -- what is known, for any thread; see `Driver`

    @property
    def phase(self) -> Phase:
        """Where the group is in its life."""
        return self.life.phase.shown

    @property
    def hosts(self) -> list[str]:
        """The names of the machines of this attempt, by node rank."""
        return [part.host for part in list(self.parts)]

    def longest(self) -> float:
        """Give the seconds in which a group ends once it is stopped, whatever its ranks do."""
        return super().longest() + self.spec.stop.reap + 3 * MARGIN

    def pids(self) -> dict[int, int]:
        """Give the process of each rank, on its own machine."""
        parts = list(self.parts)
        return {part.first + rank: pid for part in parts for rank, pid in [*part.pids.items()]}

    def exit_of(self, rank: int) -> Exit | None:
        """Give the exit status of a rank, None while it has not exited."""
        node, local = self.work.locate(rank)
        parts = self.parts
        return parts[node].exits.get(local) if node < len(parts) else None

    def look(self) -> Look:
        """Describe this attempt; a node that does not answer is shown as it was last seen."""
        answers = self.ask("look", LOOK_SECONDS)
        parts = list(self.parts)
        kill_at: list[float] = []
        for node, answer in answers.items():
            if answer and node < len(parts):
                ahead = parts[node].take_look(answer)
                kill_at += [answer["kill_at"] - ahead] if answer["kill_at"] is not None else []
        return {
            "cause": cause_of(parts),
            "kill_at": max(kill_at, default=None),
            "ranks": ranks_of(parts, self.work),
            "engine": self.engine.name,
            "hosts": [part.host for part in parts],
            "links": list(self.encryption),
            "agents": [{"host": node.host, "pid": node.pid} for node in list(self.nodes.values())],
        }

    def stacks(self, timeout: float, *, native: bool) -> list[Look]:
        """Say where ranks are, as their node processes answer."""
        answers = self.ask("stacks", timeout, seconds=timeout, native=native)
        first = self.work.first
        return [
            {**rank, "rank": first(node) + int(rank["rank"])}
            for node, ranks in sorted(answers.items())
            for rank in ranks or ()
        ]

    def error_of(self, rank: int) -> Look | None:
        """Give the error report of a rank, as `exception_of` reads it, None if it sent none."""
        node, local = self.work.locate(rank)
        parts = self.parts
        sent = parts[node].errors.get(str(local)) if node < len(parts) else None
        return dict(sent) if sent else None

    def returned(self) -> Iterator[tuple[int, Program, bytes | bytearray]]:
        """Give rank, program and pickled value of each function that returned."""
        for part in self.parts:
            for rank, body in part.values.items():
                yield part.first + rank, self.spec.program, body


def interfaces_of(nodes: Sequence[NodeRecord]) -> list[str]:
    """Give the interface of each node process's machine; "" for all where they are on one machine.

    A node process on the driver's machine may have come by the loopback interface: its interface is
    the one by which the others have come.
    """
    if len({node.peer for node in nodes}) < 2:
        return [""] * len(nodes)
    here = next(interface_of(node.reached) for node in nodes if node.peer)
    return [node.interface if node.peer else here for node in nodes]
