"""The lifecycle of a job over several nodes: every rule, and nothing else.

Theory of operation. As `procession.lifecycle` for ranks, one level up: a machine per slot, which an
engine fills with an agent, and the job that couples them. `JobLife.handle(event)` moves a slot,
lets the job follow, and returns what the caller must do. It knows no socket, clock or engine, so
that an exhaustive walk can prove that nothing gets stuck. An event that the table does not hold
raises `IllegalEvent` and changes nothing. For what happens to one slot no other one is looked at,
so that thousands of nodes cost no more than they must: see `tally`.

Rules that the table rests on:

- A job begins when as many agents are there as it has nodes; slots beyond that are spare. A node
  keeps its slot from attempt to attempt as long as its agent lives; a lost one's place is taken by
  a spare slot, or else by a new agent, for which the engine is asked once in an attempt.
- The first failure of a rank on any node, or the loss of a node, stops the ranks of all nodes.
- Nodes that are lost while a stop is under way are no cause.
- An attempt is over when no slot is busy. Whether another one follows is the caller's to say.
- A stop that is asked for and not obeyed becomes a kill, and then the loss of the node: a job ends,
  whatever its nodes do.
"""

from __future__ import annotations

import enum

from procession.lifecycle import IllegalEvent
from procession.values import Record, Value


class Slot(enum.Enum):
    """What an engine's slot holds."""

    AWAITED = "an agent was asked for"
    IDLE = "an agent that has no ranks"
    BUSY = "an agent with the ranks of a node"
    GONE = "no agent any more"


class SlotEvent(enum.Enum):
    """What can happen to a slot."""

    JOINED = "its agent is there"
    READY = "all its ranks run"
    FAILED = "a rank of it failed"
    ENDED = "no rank of it is left"
    GONE = "its agent is gone"


class JobPhase(enum.Enum):
    """Where a job is in its life."""

    GATHERING = "agents are awaited"
    MEETING = "node 0 chooses where ranks meet"
    STARTING = "ranks are being started"
    RUNNING = "every rank reached its program"
    STOPPING = "ranks are being ended"
    DECIDING = "all have ended; somebody says whether they start again"
    BACKOFF = "another attempt is to begin"
    SUCCEEDED = "every rank finished"
    FAILED = "a rank failed, or a node was lost"
    STOPPED = "ended on request"

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.STOPPED)


class DeadlineKind(enum.Enum):
    """What a deadline is for."""

    GATHER = "as many agents are there as the job has nodes"
    STOP = "nodes have obeyed the stop"
    KILL = "nodes have obeyed the kill"
    BACKOFF = "the next attempt begins"


_S, _E = Slot, SlotEvent
SLOT_TABLE: dict[tuple[Slot, SlotEvent], Slot] = {
    (_S.AWAITED, _E.JOINED): _S.IDLE,
    (_S.AWAITED, _E.GONE): _S.GONE,
    (_S.IDLE, _E.GONE): _S.GONE,
    (_S.BUSY, _E.READY): _S.BUSY,
    (_S.BUSY, _E.FAILED): _S.BUSY,
    (_S.BUSY, _E.ENDED): _S.IDLE,
    (_S.BUSY, _E.GONE): _S.GONE,
    (_S.GONE, _E.GONE): _S.GONE,  # the link and the engine may both tell it
}


# -- events: what the caller tells


class Happened(Value):
    """Something happened to a slot. ok: of its end, whether all its ranks finished."""

    kind: SlotEvent
    slot: int
    ok: bool = True


class Met(Value):
    """Node 0 of this attempt has chosen where ranks meet."""

    attempt: int


class StopWanted(Value):
    """Somebody wants the job to end. kill: at once."""

    kill: bool = False


class Decided(Value):
    """Whether a failed attempt is followed by another one."""

    attempt: int
    again: bool


class Deadline(Value):
    """A deadline of an attempt has passed."""

    kind: DeadlineKind
    attempt: int


Event = Happened | Met | StopWanted | Decided | Deadline


# -- actions: what the caller must do


class Meet(Value):
    """Have the agent in this slot choose where ranks meet."""

    slot: int


class Launch(Value):
    """Have the ranks of an attempt started; slots: by node rank."""

    attempt: int
    slots: tuple[int, ...]


class Stop(Value):
    """Have the ranks in these slots ended. kill: at once. failed: because others failed."""

    slots: tuple[int, ...]
    kill: bool = False
    failed: bool = False


class Replace(Value):
    """Have a new agent started for a slot; tell `GONE` if there is none."""

    slot: int


class Drop(Value):
    """Give these slots up: they do not obey. Tell `GONE` of each."""

    slots: tuple[int, ...]


class Decide(Value):
    """Say whether another attempt follows the one that has failed."""

    attempt: int


class Arm(Value):
    """Tell this deadline when its time has passed; it replaces one of the same kind."""

    deadline: Deadline


class End(Value):
    """The job has ended."""

    phase: JobPhase


Action = Meet | Launch | Stop | Replace | Drop | Decide | Arm | End


class JobLife(Record):
    """The joint state of a job. Tell it events with `handle`; do what it returns.

    nodes: how many it needs. slots: how many the engine fills. tally: how many of them are in each
    state. places: the slot of each node in this attempt, () while they are not known; node_at: the
    node of each such slot. kept: places of the attempt before. ready: slots that are. failed: slots
    whose ranks failed in this attempt, in the order in which it was heard of. lost: nodes that were
    lost in it while they had work. missing: agents were too few.
    """

    nodes: int
    count: int
    slots: list[Slot]
    tally: dict[Slot, int]
    node_at: dict[int, int]
    ready: set[int]
    phase: JobPhase = JobPhase.GATHERING
    attempt: int = 0
    stop_wanted: bool = False
    replaces: bool = False
    missing: bool = False
    places: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    asked: frozenset[int] = frozenset()  # slots that were asked for anew in this attempt

    @classmethod
    def of(cls, nodes: int, slots: int, *, replaces: bool = False) -> JobLife:
        """Make the life of a job for `nodes` nodes, where an engine has so many slots.

        replaces: the engine is asked for other agents before the first attempt, too.
        """
        tally = {**dict.fromkeys(Slot, 0), Slot.AWAITED: slots}
        slots_of = [Slot.AWAITED] * slots
        return cls(nodes, slots, slots_of, tally, node_at={}, ready=set(), replaces=replaces)

    def begin(self) -> list[Action]:
        """Give the actions that start the job. To be called once."""
        return [self._arm(DeadlineKind.GATHER)]

    @property
    def busy(self) -> tuple[int, ...]:
        """The slots that have ranks."""
        return tuple(s for s in range(self.count) if self.slots[s] is Slot.BUSY)

    def node_of(self, slot: int) -> int | None:
        """Give the node rank of a slot in this attempt, None for a spare one."""
        return self.node_at.get(slot)

    def handle(self, event: Event) -> list[Action]:
        """Take one event and return what to do now, in order. Raises IllegalEvent."""
        if isinstance(event, Happened):
            return self._happened(event)
        if isinstance(event, StopWanted):
            return self._stop(event.kill)
        if event.attempt != self.attempt or self.phase.final:
            return []
        if isinstance(event, Deadline):
            return self._deadline(event.kind)
        if isinstance(event, Met):
            return self._launch() if self.phase is JobPhase.MEETING else []
        if self.phase is not JobPhase.DECIDING:
            return []
        if not event.again or self.stop_wanted:
            return self._end(JobPhase.FAILED)
        self.phase = JobPhase.BACKOFF
        return [self._arm(DeadlineKind.BACKOFF)]

    # -- slots

    def _happened(self, event: Happened) -> list[Action]:
        slot, before = event.slot, self.slots[event.slot]
        after = SLOT_TABLE.get((before, event.kind))
        if after is None:
            raise IllegalEvent(f"slot {slot} is {before.name}: {event.kind.name} cannot be")
        self._put(slot, after)
        if self.phase.final:
            return []
        if event.kind is SlotEvent.READY:
            return self._is_ready(slot)
        if event.kind is SlotEvent.FAILED:
            return self._has_failed(slot)
        if before is Slot.BUSY and after is Slot.GONE:
            if not self.stop_wanted:
                self.lost = (*self.lost, slot)
            return [*self._has_failed(slot), *self._is_over()]
        if event.kind is SlotEvent.ENDED:
            failed = [] if event.ok or self.stop_wanted else self._has_failed(slot)
            return [*failed, *self._is_over()]
        if self.phase in (JobPhase.GATHERING, JobPhase.MEETING) and before is not after:
            return self._gather()
        return []

    def _put(self, slot: int, state: Slot) -> None:
        self.tally[self.slots[slot]] -= 1
        self.tally[state] += 1
        self.slots[slot] = state

    def _is_ready(self, slot: int) -> list[Action]:
        self.ready.add(slot)
        if self.phase is JobPhase.STARTING and len(self.ready) == self.nodes:
            self.phase = JobPhase.RUNNING
        return []

    def _has_failed(self, slot: int) -> list[Action]:
        if not self.stop_wanted and slot not in self.failed:
            self.failed = (*self.failed, slot)
        if self.phase is JobPhase.STOPPING:
            return []
        self.phase = JobPhase.STOPPING
        others = tuple(s for s in self.busy if s != slot)
        stop: list[Action] = [Stop(others, failed=True)] if others else []
        return [*stop, self._arm(DeadlineKind.STOP)]

    def _is_over(self) -> list[Action]:
        if self.tally[Slot.BUSY]:
            return []
        if self.failed:
            self.phase = JobPhase.DECIDING
            return [Decide(self.attempt)]
        return self._end(JobPhase.STOPPED if self.stop_wanted else JobPhase.SUCCEEDED)

    # -- beginning

    def _gather(self) -> list[Action]:
        """Choose the slots of this attempt, if there are enough; else ask for more."""
        self.phase = JobPhase.GATHERING
        self._place(())
        if self.tally[Slot.IDLE] >= self.nodes:
            self._place(self._placed())
            self.phase = JobPhase.MEETING
            return [Meet(self.places[0])]
        actions: list[Action] = []
        for slot in range(self.count):
            if self._enough:
                break
            may = self.attempt or self.replaces
            if may and self.slots[slot] is Slot.GONE and slot not in self.asked:
                self.asked |= {slot}
                self._put(slot, Slot.AWAITED)
                actions.append(Replace(slot))
        if not self._enough:
            self.missing = True
            return self._end(JobPhase.FAILED)
        return actions

    @property
    def _enough(self) -> bool:
        return self.tally[Slot.IDLE] + self.tally[Slot.AWAITED] >= self.nodes

    def _place(self, places: tuple[int, ...]) -> None:
        self.places = places
        self.node_at = {slot: node for node, slot in enumerate(places)}

    def _placed(self) -> tuple[int, ...]:
        """Choose idle slots: those of the attempt before, others where they are gone."""
        idle = [s for s in range(self.count) if self.slots[s] is Slot.IDLE]
        if len(self.kept) < self.nodes:
            return tuple(idle[: self.nodes])
        kept = {*self.kept}
        spare = iter([s for s in idle if s not in kept])
        return tuple(s if self.slots[s] is Slot.IDLE else next(spare) for s in self.kept)

    def _launch(self) -> list[Action]:
        self.phase = JobPhase.STARTING
        self.kept = self.places
        for slot in self.places:
            self._put(slot, Slot.BUSY)
        return [Launch(self.attempt, self.places)]

    # -- ending

    def _stop(self, kill: bool) -> list[Action]:
        if self.phase.final:
            return []
        first = not self.stop_wanted
        self.stop_wanted = True
        if self.phase in (JobPhase.GATHERING, JobPhase.MEETING):
            return self._end(JobPhase.STOPPED)
        if self.phase is JobPhase.BACKOFF:
            return self._end(JobPhase.FAILED)
        if self.phase is JobPhase.DECIDING or not (first or kill):
            return []
        self.phase = JobPhase.STOPPING
        kind = DeadlineKind.KILL if kill else DeadlineKind.STOP
        return [Stop(self.busy, kill=kill), self._arm(kind)]

    def _deadline(self, kind: DeadlineKind) -> list[Action]:
        if kind is DeadlineKind.GATHER and self.phase in (JobPhase.GATHERING, JobPhase.MEETING):
            self.missing = True
            return self._end(JobPhase.FAILED)
        if kind is DeadlineKind.BACKOFF and self.phase is JobPhase.BACKOFF:
            self.attempt += 1
            self.ready = set()
            self.asked = frozenset()
            self.failed = self.lost = ()
            return [self._arm(DeadlineKind.GATHER), *self._gather()]
        if kind is DeadlineKind.STOP and self.phase is JobPhase.STOPPING:
            return [Stop(self.busy, kill=True), self._arm(DeadlineKind.KILL)]
        if kind is DeadlineKind.KILL and self.phase is JobPhase.STOPPING:
            return [Drop(self.busy)]
        return []

    def _end(self, phase: JobPhase) -> list[Action]:
        self.phase = phase
        return [End(phase)]

    def _arm(self, kind: DeadlineKind) -> Arm:
        return Arm(Deadline(kind, self.attempt))


__all__ = [
    "Action",
    "Arm",
    "Deadline",
    "DeadlineKind",
    "Decide",
    "Decided",
    "Drop",
    "End",
    "Event",
    "Happened",
    "IllegalEvent",
    "JobLife",
    "JobPhase",
    "Launch",
    "Meet",
    "Met",
    "Replace",
    "Slot",
    "SlotEvent",
    "Stop",
    "StopWanted",
]
