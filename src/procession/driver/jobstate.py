"""What the driver of a job knows of it; written as orders, events, and the end of the job."""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from procession.driver.clocks import Clocks
from procession.driver.jobend import NodePart, job_end
from procession.driver.journal import Journal
from procession.driver.reception import Reception
from procession.engines.interfaces import interface_of
from procession.engines.link import Link
from procession.engines.will import Heir, Will
from procession.explain.ends import facts_of_failure, facts_of_start, none_started
from procession.prepare.work import Work
from procession.rules.joblife import JobLife
from procession.rules.jobwords import JobPhase, Slot
from procession.values.base import Record
from procession.values.environment import Node
from procession.values.errors import GroupEnd, Outcome, signal_name
from procession.values.events import NO_FACTS

SHOWN = 8  # hosts that are named in the message that others did not come


class NodeRecord(Record):
    """What is known of a node process.

    order, nproc: where nodes come by themselves, by which they are put in order, and how many ranks
    each has. heir: how others find it if it takes over. peer: its address, "" on this machine.
    reached: our own address on its link. interface: that of its link, "" if unknown. owed: bytes of
    its output shown since its last credit.
    """

    slot: int
    link: Link
    host: str
    pid: int
    version: str
    python: str
    clocks: Clocks
    order: tuple[Any, ...] = ()
    nproc: int = 0
    heir: Heir | None = None
    peer: str = ""
    reached: str = ""
    interface: str = ""
    owed: int = 0


class JobState:
    """Shared by `Driver` and `NodeEvents`; for the thread of the loop.

    engine: its name. place: the directory of the run's files, "" for none. run_id: what the job is
    called. parts: of this attempt, by node. hosts: of slots, also where node processes are gone.
    said: what the engine said last.
    encryption: what protects links to node processes, in words. address: where ranks of this
    attempt meet, as node 0 has chosen. active_at: when a rank anywhere wrote last. lost_at: when a
    node was lost last, in seconds, 0 for never. late: not all node processes came in time.
    reception: where they come by themselves, else None. last: the end of the last attempt about
    which a restart was decided. stopper: which node process was told to end the job, in words, ""
    for none.
    """

    def __init__(
        self,
        work: Work,
        life: JobLife,
        reception: Reception | None,
        journal: Journal,
        engine: str,
        run_id: str,
        place: str,
        announce: Callable[[str], None],
    ) -> None:
        self.work = work
        self.life = life
        self.reception = reception
        self.journal = journal
        self.engine = engine
        self.run_id = run_id
        self.place = place
        self.announce = announce
        self.parts: list[NodePart] = []
        self.hosts: dict[int, str] = {}
        self.said: deque[str] = deque(maxlen=10)
        self.encryption: tuple[str, ...] = ()
        self.address: tuple[str, int] = ("", 0)
        self.active_at = time.monotonic_ns()
        self.lost_at = 0.0
        self.late = False
        self.last: GroupEnd | None = None
        self.stopper = ""

    def note_stopper(self, number: int, host: str) -> None:
        """Note that a node process got a signal that ends the job."""
        self.stopper = self.stopper or f"{signal_name(number)} to the node process on {host}"

    def orders(
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
                restarts=work.restart.max,
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

    def begin_attempt(self, nodes: Sequence[NodeRecord], *, named: bool) -> None:
        """Begin an attempt with the nodes of these node processes. named: see `NodePart`."""
        self.active_at = time.monotonic_ns()
        first, size = self.work.first, self.work.size
        self.parts = [
            NodePart(n, node.host, first(n), size(n), node.clocks, {}, {}, {}, named=named)
            for n, node in enumerate(nodes)
        ]

    def inherit(self, will: Will) -> None:
        """Go on where a host that was lost had come to."""
        self.life.inherit(will.attempt + 1, will.regrouped + 1, len(will.world))
        self.lost_at = will.lost_at

    def beat(self) -> dict[str, Any]:
        """Give what heartbeats contain: for how long no rank has written anything."""
        if self.work.spec.hang.silence is None:
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
        return {}

    def note(
        self, kind: str, slot: int, detail: str = "", facts: Mapping[str, Any] = NO_FACTS
    ) -> None:
        """Note what happened to a slot."""
        node = self.life.node_of(slot)
        about = {"host": self.hosts.get(slot, ""), "slot": slot, **facts}
        about |= {} if node is None else {"of_node": node}
        self.journal.note(kind, None, self.life.attempt, detail=detail, facts=about)

    # -- as the end

    def failed_by(self, outcome: Outcome) -> bool:
        """Whether this is the first failure of any node in this attempt, as far as is known."""
        for part in self.parts:
            end = part.failed or (part.end and next(iter(part.end.failures), None))
            if end is not None and end.outcome is outcome:
                return True
        return False

    def end_of_attempt(self, notes: Sequence[str] = ()) -> GroupEnd:
        """Say how this attempt ended."""
        spec, work = self.work.spec, self.work
        attempt = self.life.attempt
        if self.life.isolated:
            notes = (*notes, f"it does not go on here: {self._apart()} [P419]")
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
        hosts = ", ".join(self.hosts[slot] for slot in there[:SHOWN])
        more = ", ..." if len(there) > SHOWN else ""
        there_of = f" (of {hosts}{more})" if hosts else ""
        last = f"; {self.engine} said last: {self.said[-1]}" if self.said else ""
        absent = reception.absent() if reception is not None else ""
        return f"{came}{there_of} within {seconds:g} s{f'; {absent}' if absent else last}"


def interfaces_of(nodes: Sequence[NodeRecord]) -> list[str]:
    """Give the interface of each node process's machine; "" for all where they are on one machine.

    A node process on the driver's machine may have come by the loopback interface: its interface is
    the one by which the others have come.
    """
    if len({node.peer for node in nodes}) < 2:
        return [""] * len(nodes)
    here = next(interface_of(node.reached) for node in nodes if node.peer)
    return [node.interface if node.peer else here for node in nodes]
