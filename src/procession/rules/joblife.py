"""The lifecycle of a job over several nodes: every rule, and nothing else.

Theory of operation. This is like `rules.lifecycle` for ranks, one level up: one state machine per
slot, which an engine fills with a node process, and one for the job, which couples them; their
tables are in `jobwords`. `JobLife.handle(event)` changes a slot, then the job, and returns what the
caller must do. It knows no socket, clock or engine, so that an exhaustive walk can prove that
nothing gets stuck. An event that the table of slots does not hold raises `IllegalEvent` and changes
nothing. An event about one slot looks at no other slot, so that the cost does not grow with the
number of nodes: see `tally`.

The rules:

- A job begins when as many node processes are there as it has nodes; slots beyond that are spare. A
  node keeps its slot from attempt to attempt as long as its node process lives; a lost one's place
  is taken by a spare slot, or else by a new node process, for which the engine is asked once in an
  attempt.
- The first failure of a rank on any node, or the loss of a node, stops the ranks of all nodes.
- Nodes that are lost while the job is being stopped are no cause of its failure.
- An attempt is over when no slot is busy. The caller decides whether another one follows.
- A stop that is asked for and not obeyed becomes a kill, and then the loss of the node: a job ends,
  whatever its nodes do.
- Where nodes come by themselves (`open`), a slot whose node process is gone waits for the next
  node, unless it is known that none comes for it (`sealed`).
- An elastic job has `least` to `most` nodes. It begins with all of them, or with fewer after the
  last call. A node that comes or goes later stops the ranks, and the next attempt begins with the
  nodes that are there. This is no failure, so no restart rule is asked. If ranks fail while a node
  goes, the leaving of the node is taken for the reason. Another machine may take over an elastic
  job, so it ends here where too few of its last world are in contact (see `quorum`).
"""

from __future__ import annotations

from typing import Any

from procession.rules.jobwords import (
    JOB_TABLE,
    SLOT_TABLE,
    Action,
    Decide,
    Dismiss,
    Drop,
    Event,
    Happened,
    JobArm,
    JobDeadline,
    JobDeadlineKind,
    JobEvent,
    JobPhase,
    JobStop,
    JobStopWanted,
    Launch,
    Leaves,
    Meet,
    Met,
    Replace,
    Slot,
    SlotEvent,
)
from procession.rules.lifecycle import IllegalEvent
from procession.rules.quorum import World
from procession.values.base import Record


class JobLife(Record):
    """The joint state of a job. Pass events to `handle`; do what it returns.

    nodes: how many it has in this attempt; least, most: how many it may have. slots: how many the
    engine fills. tally: how many of them are in each state. places: the slot of each node in this
    attempt, () while they are not known; node_at: the node of each such slot. kept: places of the
    attempt before. ready: slots whose ranks all run. failed: slots whose ranks failed in this
    attempt, in the order of the reports. lost: nodes that were lost in it while they had ranks.
    missing: node processes were too few. open, sealed: see above. keys: by which nodes of an open
    job are put in order, by slot. changed: a node came or went in this attempt; regrouped: after
    how many attempts that was so. leaving: slots that are to go. called: whether the last call has
    passed, None while there was none. elects: whether another machine takes over an elastic job if
    this one is lost. worlds: then, those of which enough nodes must be there.
    """

    nodes: int
    count: int
    slots: list[Slot]
    tally: dict[Slot, int]
    node_at: dict[int, int]
    ready: set[int]
    keys: dict[int, tuple[Any, ...]]
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
    least: int = 0
    most: int = 0
    open: bool = False
    sealed: bool = False
    changed: bool = False
    regrouped: int = 0
    leaving: frozenset[int] = frozenset()
    called: bool | None = None
    elects: bool = False
    worlds: tuple[World, ...] = ()

    @classmethod
    def of(
        cls,
        nodes: int,
        slots: int,
        *,
        replaces: bool = False,
        least: int | None = None,
        open: bool = False,
        elects: bool = False,
        sealed: bool = False,
    ) -> JobLife:
        """Make the life of a job for `nodes` nodes, where an engine has so many slots.

        replaces: the engine is asked for other node processes before the first attempt, too. least:
        of an elastic job, how many nodes are enough. open: nodes come by themselves. elects,
        sealed: see above.
        """
        tally = {**dict.fromkeys(Slot, 0), Slot.AWAITED: slots}
        slots_of = [Slot.AWAITED] * slots
        return cls(
            nodes, slots, slots_of, tally, node_at={}, ready=set(), replaces=replaces,
            least=least or nodes, most=nodes, open=open, keys={},
            elects=elects and bool(least) and least < nodes, sealed=sealed,
        )  # fmt: skip

    def inherit(self, attempt: int, regrouped: int, size: int) -> None:
        """Go on, with this attempt, after the host of a world of this size was lost."""
        self.attempt, self.regrouped = attempt, regrouped
        self.worlds = (World(size, frozenset(), inherited=True),)

    def take_vote(self, slot: int) -> None:
        """Take note that the node process of a slot was a node of the inherited world.

        To be used before it is told that it has joined. The last call begins anew.
        """
        self.called = None
        self.worlds = (self.worlds[0].joined_by(slot), *self.worlds[1:])

    @property
    def isolated(self) -> bool:
        """Whether too few of the last world are in contact: others may go on."""
        return not all(world.holds for world in self.worlds)

    def begin_job(self) -> list[Action]:
        """Give the actions that start the job. To be called once."""
        return [self._arm(JobDeadlineKind.GATHER)]

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
        if isinstance(event, JobStopWanted):
            return self._stop(event.kill)
        if isinstance(event, Leaves):
            return self._leaves(event.slot)
        if event.attempt != self.attempt or self.phase.final:
            return []
        if isinstance(event, JobDeadline):
            return self._deadline(event.kind)
        if isinstance(event, Met):
            return self._launch() if self.phase is JobPhase.MEETING else []
        if self.phase is not JobPhase.DECIDING:
            return []
        if not event.again or self.stop_wanted or self.isolated:
            return self._end(JobEvent.BADLY)
        self._move(JobEvent.AGAIN)
        return [self._arm(JobDeadlineKind.BACKOFF)]

    def _move(self, event: JobEvent) -> None:
        """Take the job to its next phase."""
        if (after := JOB_TABLE.get((self.phase, event))) is None:
            raise IllegalEvent(f"a job that is {self.phase.name} cannot take {event.name}")
        self.phase = after

    # -- slots

    def _happened(self, event: Happened) -> list[Action]:
        slot, before = event.slot, self.slots[event.slot]
        if (after := SLOT_TABLE.get((before, event.kind))) is None:
            raise IllegalEvent(f"slot {slot} is {before.name}: {event.kind.name} cannot be")
        if self.open and not self.sealed and before is Slot.IDLE and after is Slot.GONE:
            after = Slot.AWAITED  # a spare node leaves its place to the next one
        self._put(slot, after)
        if event.kind is SlotEvent.GONE and slot not in self.leaving:
            self.worlds = tuple(world.without(slot) for world in self.worlds)
        if self.phase.final:
            return []
        if event.kind is SlotEvent.READY:
            return self._is_ready(slot)
        if event.kind is SlotEvent.FAILED:
            return self._has_failed(slot)
        if before is Slot.BUSY and after is Slot.GONE:
            if not self.stop_wanted:
                self.lost = (*self.lost, slot)
            gone = self._regroup() if self._can_shrink else self._has_failed(slot)
            return [*(gone or self._hurry()), *self._is_over()]
        if event.kind is SlotEvent.ENDED:
            failed = [] if event.ok or self.stop_wanted else self._has_failed(slot)
            return [*failed, *self._is_over()]
        if self.phase in (JobPhase.GATHERING, JobPhase.MEETING) and before is not after:
            return self._gather()
        if event.kind is SlotEvent.GONE:
            return self._hurry()
        at_work = self.phase in (JobPhase.STARTING, JobPhase.RUNNING)
        if event.kind is SlotEvent.JOINED and at_work and self.nodes < self.most:
            return self._regroup()
        return []

    def _put(self, slot: int, state: Slot) -> None:
        self.tally[self.slots[slot]] -= 1
        self.tally[state] += 1
        self.slots[slot] = state

    def _is_ready(self, slot: int) -> list[Action]:
        self.ready.add(slot)
        if self.phase is JobPhase.STARTING and len(self.ready) == self.nodes:
            self._move(JobEvent.ALL_READY)
            self.worlds = self.worlds[-1:]  # all nodes know it
        return []

    def _has_failed(self, slot: int) -> list[Action]:
        if not self.stop_wanted and slot not in self.failed:
            self.failed = (*self.failed, slot)
        return self._end_ranks(slot)

    @property
    def _can_shrink(self) -> bool:
        """Whether the nodes that stay are enough for another attempt of an elastic job."""
        stay = self.tally[Slot.IDLE] + self.tally[Slot.BUSY] - len(self.leaving)
        return self.least < self.most and stay >= self.least and not self.isolated

    def _regroup(self) -> list[Action]:
        """Stop the ranks, since a node came or went."""
        self.changed = True
        return self._end_ranks()

    def _end_ranks(self, but: int = -1) -> list[Action]:
        """Stop the ranks of all slots but one, unless that is being done."""
        if self.phase is JobPhase.STOPPING:
            return []
        self._move(JobEvent.STOP)
        others = tuple(s for s in self.busy if s != but)
        stop: list[Action] = [JobStop(others, failed=True)] if others else []
        return [*stop, self._arm(JobDeadlineKind.STOP)]

    def _hurry(self) -> list[Action]:
        """Have ranks that are being ended end at once, if others may go on soon."""
        busy = self.busy if self.isolated and self.phase is JobPhase.STOPPING else ()
        return [JobStop(busy, failed=True)] if busy else []

    def _leaves(self, slot: int) -> list[Action]:
        if not self.can_spare(slot):
            return []
        self.leaving |= {slot}
        return self._dismiss() if self.slots[slot] is Slot.IDLE else self._regroup()

    def can_spare(self, slot: int) -> bool:
        """Tell whether the job can go on without the node process of this slot.

        So can an elastic job that has enough others, and any other without a spare node.
        """
        there = self.slots[slot] in (Slot.IDLE, Slot.BUSY) and slot not in self.leaving
        stay = self.tally[Slot.IDLE] + self.tally[Slot.BUSY] - len(self.leaving) - 1
        elastic = self.least < self.most or self.slots[slot] is Slot.IDLE
        over = self.phase.final or self.stop_wanted
        return there and elastic and stay >= self.least and not over

    def _dismiss(self) -> list[Action]:
        """Let those go that are to leave, and have no ranks."""
        gone = tuple(s for s in sorted(self.leaving) if self.slots[s] is Slot.IDLE)
        for slot in gone:
            self._put(slot, Slot.AWAITED if self.open and not self.sealed else Slot.GONE)
        self.leaving -= {*gone}
        again = self._gather() if self.phase in (JobPhase.GATHERING, JobPhase.MEETING) else []
        return [*([Dismiss(gone)] if gone else []), *again]

    def _is_over(self) -> list[Action]:
        if self.tally[Slot.BUSY]:
            return []
        if self._can_shrink and self.changed and not self.stop_wanted:
            self._move(JobEvent.AGAIN)
            self.regrouped += 1
            return [*self._dismiss(), self._arm(JobDeadlineKind.BACKOFF)]
        if self.failed:
            return self._decide()
        if self.changed and not self.stop_wanted:
            return self._too_few()
        return self._end(JobEvent.ASKED if self.stop_wanted else JobEvent.WELL)

    def _decide(self) -> list[Action]:
        """Have it decided whether another attempt follows one that has failed."""
        self.changed = False
        self._move(JobEvent.FAILED)
        return [Decide()]

    # -- beginning

    def _gather(self) -> list[Action]:
        """Choose the slots of this attempt, if there are enough; else ask for more."""
        self._move(JobEvent.GATHER)
        self._place(())
        there = self.tally[Slot.IDLE]
        heir = bool(self.worlds) and self.worlds[-1].inherited
        if self.isolated and not heir:
            return self._too_few()
        enough = there >= self.least and not self.isolated
        if enough and (self.called or (there >= self.most and not heir)):  # see `succession`
            self.nodes = min(there, self.most)
            self._place(self._placed())
            self._move(JobEvent.ENOUGH)
            return [Meet(self.places[0])]
        actions: list[Action] = []
        if self.open:
            for slot in () if self.sealed else range(self.count):
                if self.slots[slot] is Slot.GONE:
                    self._put(slot, Slot.AWAITED)
            if there + self.tally[Slot.AWAITED] < self.least:
                return self._too_few()
            if not enough:
                self.called = None
            elif self.called is None:
                self.called = False
                actions.append(self._arm(JobDeadlineKind.LAST_CALL))
            return actions
        for slot in range(self.count):
            if self._enough:
                break
            may = self.attempt or self.replaces
            if may and self.slots[slot] is Slot.GONE and slot not in self.asked:
                self.asked |= {slot}
                self._put(slot, Slot.AWAITED)
                actions.append(Replace(slot))
        if not self._enough:
            return self._too_few()
        return actions

    def _too_few(self) -> list[Action]:
        self.missing = True
        return self._end(JobEvent.BADLY)

    @property
    def _enough(self) -> bool:
        return self.tally[Slot.IDLE] + self.tally[Slot.AWAITED] >= self.nodes

    def _place(self, places: tuple[int, ...]) -> None:
        self.places = places
        self.node_at = {slot: node for node, slot in enumerate(places)}

    def _placed(self) -> tuple[int, ...]:
        """Choose idle slots: those of the attempt before, others where they are gone."""
        idle = [s for s in range(self.count) if self.slots[s] is Slot.IDLE]
        if self.open:
            idle.sort(key=lambda slot: slot not in self.kept)
            return tuple(sorted(idle[: self.nodes], key=lambda slot: self.keys.get(slot, (slot,))))
        if len(self.kept) < self.nodes:
            return tuple(idle[: self.nodes])
        kept = {*self.kept}
        spare = iter([s for s in idle if s not in kept])
        return tuple(s if self.slots[s] is Slot.IDLE else next(spare) for s in self.kept)

    def _launch(self) -> list[Action]:
        self._move(JobEvent.MET)
        self.kept = self.places
        if self.elects:
            self.worlds = (*self.worlds, World(self.nodes, frozenset(self.places)))
        for slot in self.places:
            self._put(slot, Slot.BUSY)
        return [Launch(self.attempt, self.places)]

    # -- ending

    def _stop(self, kill: bool) -> list[Action]:
        if self.phase.final:
            return []
        first, self.stop_wanted = not self.stop_wanted, True
        if self.phase in (JobPhase.GATHERING, JobPhase.MEETING):
            return self._end(JobEvent.ASKED)
        if self.phase in (JobPhase.DECIDING, JobPhase.BACKOFF):
            return self._end(JobEvent.ASKED if self.changed else JobEvent.BADLY)
        if not (first or kill):
            return []
        self._move(JobEvent.STOP)
        kind = JobDeadlineKind.KILL if kill else JobDeadlineKind.STOP
        return [JobStop(self.busy, kill=kill), self._arm(kind)]

    def _deadline(self, kind: JobDeadlineKind) -> list[Action]:
        if kind is JobDeadlineKind.LAST_CALL and self.phase is JobPhase.GATHERING:
            self.called = True
            return self._gather()
        if kind is JobDeadlineKind.GATHER and self.phase in (JobPhase.GATHERING, JobPhase.MEETING):
            enough = self.phase is JobPhase.GATHERING and self.called is False
            return [] if enough else self._too_few()  # the last call comes
        if kind is JobDeadlineKind.BACKOFF and self.phase is JobPhase.BACKOFF:
            if self.lost and self.changed and not self._can_shrink:  # more were lost since
                self.regrouped -= 1
                return self._decide()
            self.attempt += 1
            self.ready = set()
            self.asked = frozenset()
            self.failed = self.lost = ()
            self.changed, self.called = False, None
            actions = self._gather()
            return actions if self.phase.final else [self._arm(JobDeadlineKind.GATHER), *actions]
        if kind is JobDeadlineKind.STOP and self.phase is JobPhase.STOPPING:
            return [JobStop(self.busy, kill=True), self._arm(JobDeadlineKind.KILL)]
        if kind is JobDeadlineKind.KILL and self.phase is JobPhase.STOPPING:
            return [Drop(self.busy)]
        return []

    def _end(self, event: JobEvent) -> list[Action]:
        self._move(event)
        return []

    def _arm(self, kind: JobDeadlineKind) -> JobArm:
        return JobArm(JobDeadline(kind, self.attempt))
