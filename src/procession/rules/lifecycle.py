"""The lifecycle of a group of ranks: every rule, and nothing else.

Theory of operation. `Lifecycle.handle(event)` takes one event, moves a `RankState`, moves the
group as `tables` says, until no coupling moves it further, and returns the actions that the caller
must carry out. It knows no process, no clock and no file, so that an exhaustive walk over all joint
states can prove that nothing gets stuck. An event that cannot happen raises `IllegalEvent` and
changes nothing.

Rules that the tables rest on:

- The cause is the failure that *happened* first. Events carry the time at which a thing happened
  (nanoseconds of the machine's monotonic clock), not the time at which its report arrived.
- What the group ended itself is no failure: a rank that ends after its stop signal was *sent* was
  ended by the group, unless it failed before. The process that sent the signal says when. A rank's
  report of a failure may arrive before that: then the failure is taken back.
- A rank that reported its outcome is about to exit; it gets the stop signal only after `linger`.
- A patient group that fails leaves its other ranks alone: those that work go on, and those that
  have no process yet are still started, within the `START` deadline. That ends with the `PATIENCE`
  deadline, a request to stop, or a rank that cannot be started: a group never works with only a
  part of its ranks started.
- A lifecycle is one attempt. Whether another one follows is the caller's to decide (`begin`).
- In a group of single ranks, a failure ends only its own rank, by SIGKILL if it does not exit. The
  group fails only if the caller does not start that rank again (`RankEvent.again`). Such a rank has
  deadlines of its own: what other ranks do moves none of them.
- A stop may begin with notice: ranks that know of it may end by themselves, until the `NOTICE`
  deadline.
- What is *wanted* is stored apart from the stage: a group that was to stop does not start again.
- One deadline (`GRACE`) runs from the first stop signal to SIGKILL, for ranks and for whatever
  they left behind; it begins anew only for a request to hurry. A second deadline (`REAP`) limits
  the wait after SIGKILL. A deadline carries its attempt, so that an old one does nothing.

Rejected: an exit status as a state (a rank that was killed and one that returned are both EXITED;
how it ended is data); a worker that is STOPPING as soon as the signal is requested (a rank that
died just before would count as ended by the group).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from procession.rules import tables
from procession.rules.messages import (
    Action,
    Arm,
    Cancel,
    Deadline,
    End,
    Event,
    RankEvent,
    Signal,
    Spawn,
    StopWanted,
    Sweep,
)
from procession.rules.tables import (
    GONE,
    WORKER_TABLE,
    DeadlineKind,
    Do,
    Ended,
    GroupEvent,
    Phase,
    Stage,
    Worker,
    WorkerEvent,
)
from procession.values.base import Record

NOT_THERE_YET = (Worker.PENDING, Worker.STARTING)


class IllegalEvent(Exception):
    """An event came that the tables do not allow in this state: a defect of the caller."""


class Lifecycle(Record):
    """The joint state of a group. Pass events to `handle`; do what it returns.

    patient: after a failure, others may end by themselves first. single: each rank may fail, and
    start again, by itself. left_behind: something is there that SIGKILL did not end.
    """

    nproc: int
    patient: bool = False
    single: bool = False
    stage: Stage = Stage.STARTING
    attempt: int = 0
    stop_wanted: bool = False
    left_behind: bool = False
    ranks: Sequence[RankState] = ()

    def begin_attempt(self, attempt: int = 0) -> list[Action]:
        """Give the actions that start the ranks of an attempt, all anew."""
        self.stage, self.attempt = Stage.STARTING, attempt
        self.stop_wanted = self.left_behind = False
        self.ranks = [RankState() for _ in range(self.nproc)]
        return [Spawn(self.attempt), self._arm(DeadlineKind.START)]

    def handle(self, event: Event) -> list[Action]:
        """Take one event and return what to do now, in order. Raises IllegalEvent."""
        if isinstance(event, RankEvent):
            actions = self._rank_event(event)
        elif isinstance(event, StopWanted):
            actions = self._stop_wanted(event)
        elif isinstance(event, Deadline):
            actions = self._move(event.kind, event.rank, event.at) if self._is_due(event) else []
        elif event.attempt != self.attempt or self.phase.final:
            return []
        else:
            actions = self._move(GroupEvent.SWEPT)
        while (coupling := tables.COUPLINGS.get(self.stage)) and self._all_are(coupling[0]):
            actions += self._move(coupling[1])
        return actions

    # -- what is known

    @property
    def phase(self) -> Phase:
        """Where the group is in its life, as people see it."""
        return self.stage.phase

    @property
    def waiting(self) -> bool:
        """Whether the group is ending, and its ranks may still end by themselves."""
        return self.stage in tables.WAITING

    def lives(self, rank: int) -> bool:
        """Whether a rank is not gone yet, or has still to be started."""
        return not self.ranks[rank].gone

    @property
    def failures(self) -> list[int]:
        """Ranks that failed by themselves, in the order in which it happened."""
        # Each is read once: other threads ask, too. Of failures with one time stamp, the one that
        # was heard of first stays first.
        known = enumerate(self.ranks)
        failed = [(at, k.failed_nth, r) for r, k in known if (at := k.failed_at) is not None]
        return [r for *_, r in sorted(failed)]

    def verdict(self) -> Phase:
        """Name the end of the group from how its ranks ended."""
        endings = {rank.ended for rank in self.ranks}
        if self.failures or Ended.LOST in endings:
            return Phase.FAILED
        return Phase.SUCCEEDED if endings <= {Ended.FINISHED} else Phase.STOPPED

    # -- events

    def _rank_event(self, event: RankEvent) -> list[Action]:
        if not 0 <= event.rank < self.nproc:
            raise IllegalEvent(f"there is no rank {event.rank}")
        rank = self.ranks[event.rank]
        if rank.state is Worker.LOST:
            return []  # given up: what it does now is no longer ours
        if (rank.state, event.kind) not in WORKER_TABLE:
            raise IllegalEvent(
                f"rank {event.rank} is {rank.state.name} in a group that is {self.stage.name} "
                f"(attempt {self.attempt}): {event.kind.name} cannot happen"
            )
        failed_before = rank.failed_at is not None
        rank.move(event)
        fails = rank.failed_at is not None and not failed_before
        if fails:
            rank.failed_nth = len(self.failures)
        news = self._news(event, rank, fails)
        return self._move(news, event.rank) if news else []

    @staticmethod
    def _news(event: RankEvent, rank: RankState, fails: bool) -> GroupEvent | None:
        """Give what the event of a rank is to its group. fails: whether it is its failure."""
        kind = event.kind
        if kind is WorkerEvent.SPAWNED:
            return GroupEvent.SPAWNED
        if kind in (WorkerEvent.SPAWN_FAILED, WorkerEvent.START_DEADLINE):
            return GroupEvent.NO_START
        if rank.failed_at is not None and rank.gone:
            return GroupEvent.REVIVED if event.again else GroupEvent.LOST
        if fails:
            return GroupEvent.HUNG if kind is WorkerEvent.HUNG else GroupEvent.FAILED
        return None

    def _stop_wanted(self, event: StopWanted) -> list[Action]:
        if self.phase.final:
            return []
        self.stop_wanted = True
        asked_for = (event.kill, event.notice, event.hurry, True)
        wishes = (w for w, asked in zip(tables.WISHES, asked_for, strict=True) if asked)
        return self._move(next(filter(self._entry, wishes)))

    @property
    def may_be_followed(self) -> bool:
        """Whether this attempt has ended so that another one can follow: all could be started, and
        nothing is left.
        """
        whole = not any(r.start_failed or r.ended is Ended.LOST for r in self.ranks)
        over = self.stage is Stage.FAILED and not self.left_behind
        return over and whole and not self.stop_wanted

    def _all_are(self, states: tuple[Worker, ...]) -> bool:
        """Tell whether every rank is in one of these states; asked after each event.

        The last ones first: they are the last that start, so most answers need a look at one.
        """
        return all(rank.state in states for rank in reversed(self.ranks))

    # -- the table

    def _is_due(self, deadline: Deadline) -> bool:
        """Tell whether a deadline is one of this attempt, and finds something to do."""
        attempt = self.attempt
        if deadline.rank >= 0:
            rank = self.ranks[deadline.rank]
            attempt = -1 if rank.gone or rank.awaited else rank.attempt
        return deadline.attempt == attempt and self._entry(deadline.kind) is not None

    def _entry(self, event: GroupEvent | DeadlineKind) -> tables.Entry | None:
        return tables.TABLES[self.patient, self.single].get((self.stage, event))

    def _move(self, event: GroupEvent | DeadlineKind, rank: int = -1, at: int = 0) -> list[Action]:
        """Take the group to its next stage, and give the actions of the way there."""
        if (entry := self._entry(event)) is None:
            raise IllegalEvent(f"a group that is {self.stage.name} cannot take {event.name}")
        after, *steps = entry
        if after is not None:
            self.stage = after
        actions: list[Action] = []
        for step in steps:
            arms = isinstance(step, DeadlineKind)
            actions += [self._arm(step, rank)] if arms else self._do_step(step, rank, at)
        if after is None:  # after the steps: they may say how ranks ended
            self.stage = Stage[self.verdict().name]
            actions.append(End(self.phase))
        return actions

    def _arm(self, kind: DeadlineKind, rank: int = -1) -> Arm:
        if kind in tables.OF_A_RANK:
            return Arm(Deadline(kind, self.ranks[rank].attempt, rank=rank))
        return Arm(Deadline(kind, self.attempt))

    # -- what is done on the way

    def _do_step(self, step: Do, rank: int, at: int) -> list[Action]:
        """Do one step of an entry. rank, at: of the event, where it has them."""
        ranks = enumerate(self.ranks)
        match step:
            case Do.REVIVE:
                again = RankState(attempt=self.ranks[rank].attempt + 1)
                self.ranks = [again if r == rank else each for r, each in ranks]
                return [Spawn(self.attempt, rank)]
            case Do.FAIL_LATE:
                return self._fail([r for r, k in ranks if not (k.awaited or k.attempt)], at)
            case Do.FAIL_IT:
                return self._fail([rank], at)
            case Do.CANCEL:
                return [Cancel()] if any(k.state is Worker.PENDING for _, k in ranks) else []
            case Do.ASK:
                return self._ask(ranks)
            case Do.ASK_IT:
                return self._ask([(rank, self.ranks[rank])])
            case Do.ASK_AGAIN:
                return self._signal(r for r, k in ranks if k.asked)
            case Do.ASK_REST:
                return self._signal(r for r, k in ranks if not k.asked)
            case Do.KILL:
                return self._signal(range(self.nproc), kill=True)
            case Do.KILL_IT:
                return self._signal([rank], kill=True)
            case Do.GIVE_UP:
                return self._give_up([r for r, k in ranks if not k.gone], at)
            case Do.GIVE_UP_IT:
                return self._give_up([rank], at) + self._move(GroupEvent.LOST)
            case Do.SWEEP:
                return [Sweep()]
            case Do.SWEEP_KILL:
                return [Sweep(kill=True)]

    def _fail(self, late: list[int], at: int) -> list[Action]:
        """Take those of these ranks for failed that have not reached their program."""
        actions: list[Action] = []
        for r in (r for r in late if self.ranks[r].state in NOT_THERE_YET):
            actions += self._rank_event(RankEvent(WorkerEvent.START_DEADLINE, r, at))
        return actions

    def _give_up(self, late: list[int], at: int) -> list[Action]:
        for r in late:
            self.ranks[r].move(RankEvent(WorkerEvent.REAP_DEADLINE, r, at))
        self.left_behind = True
        return []

    def _ask(self, ranks: Iterable[tuple[int, RankState]]) -> list[Action]:
        """Ask ranks that work to stop, and give those that reported their outcome a moment."""
        alive = (Worker.STARTING, Worker.RUNNING)
        working = [(r, rank) for r, rank in ranks if rank.state in alive and not rank.asked]
        actions = self._signal(r for r, rank in working if not rank.reported)
        if any(rank.reported for _, rank in working):
            actions.append(self._arm(DeadlineKind.LINGER))
        return actions

    def _signal(self, ranks: Iterable[int], *, kill: bool = False) -> list[Action]:
        chosen = tuple(r for r in ranks if self.ranks[r].state not in (Worker.PENDING, *GONE))
        for r in chosen:
            self.ranks[r].asked = True
        return [Signal(chosen, kill)] if chosen else []

    def after_waiting(self, waited: Signal) -> list[Action]:
        """Give what becomes of a stop signal that could not be sent at once.

        A rank that has reported its outcome meanwhile is on its way out: it gets the signal only
        after `linger`, as one that had reported it before.
        """
        for r in waited.ranks:
            self.ranks[r].asked = False
        return self._ask([(r, self.ranks[r]) for r in waited.ranks])


class RankState(Record):
    """The state of a rank's process, and the facts from which its ending is known.

    asked: whether it was chosen to get a signal. stop_at: when the first signal was sent.
    failed_nth: its number in the order in which failures were heard of, from 1. awaited: its
    process is known to be gone, and it is being decided whether it starts again. attempt: how
    often it has started again by itself.
    """

    state: Worker = Worker.PENDING
    reported: bool = False
    reported_ok: bool = False
    asked: bool = False
    stop_at: int | None = None
    failed_at: int | None = None
    failed_nth: int = 0
    start_failed: bool = False
    ended: Ended | None = None
    reported_at: int = 0
    awaited: bool = False
    attempt: int = 0

    @property
    def gone(self) -> bool:
        """Whether nothing is expected of it any more."""
        return self.state in GONE

    @property
    def expects_signal(self) -> bool:
        """Whether it was chosen to get a signal, which was not sent yet."""
        return self.asked and self.stop_at is None and not self.gone

    def move(self, event: RankEvent) -> None:
        """Take an event that can happen to it."""
        self.state = WORKER_TABLE[self.state, event.kind]
        self._note(event)
        if self.state is Worker.LOST:
            self.ended = Ended.LOST
        elif self.state is Worker.EXITED:
            self.ended = self._ending(event.kind)

    def _note(self, event: RankEvent) -> None:
        """Write down how the rank is ending; each fact is written once."""
        kind = event.kind
        before_stop = self.stop_at is None or event.at < self.stop_at
        if kind is WorkerEvent.REPORTED and not self.reported and before_stop:
            self.reported, self.reported_ok, self.reported_at = True, event.ok, event.at
            if not event.ok and (self.failed_at is None or event.at < self.failed_at):
                self.failed_at = event.at
        elif kind in (WorkerEvent.STOP_SENT, WorkerEvent.KILL_SENT) and self.stop_at is None:
            self.stop_at = event.at
            if self.reported and self.reported_at >= event.at and not self.start_failed:
                # Its report of the signal was heard before the news that the signal was sent.
                self.reported = self.reported_ok = False
                if self.failed_at == self.reported_at:
                    self.failed_at = None
        elif kind in (WorkerEvent.SPAWN_FAILED, WorkerEvent.START_DEADLINE):
            self.start_failed = True
            if self.failed_at is None and self.stop_at is None:
                self.failed_at = event.at
        elif kind is WorkerEvent.HUNG:
            if self.failed_at is None:
                self.failed_at = event.at
                self.reported = self.reported_ok = False  # it is not on its way out
        elif kind is WorkerEvent.EXITED:
            if self.failed_at is None and not event.ok and before_stop:
                self.failed_at = event.at

    def _ending(self, last: WorkerEvent) -> Ended:
        if self.failed_at is not None:
            return Ended.FAILED
        if last in (WorkerEvent.CANCELLED, WorkerEvent.SPAWN_FAILED):
            return Ended.NEVER_STARTED
        if self.stop_at is not None and not self.reported_ok:
            return Ended.STOPPED
        return Ended.FINISHED
