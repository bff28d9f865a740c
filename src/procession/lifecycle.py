"""The lifecycle of a group of ranks: every rule, and nothing else.

Theory of operation. Two kinds of machine, each a table of (state, event) -> state: one `Worker`
per rank, and the group that couples them. `Lifecycle.handle(event)` moves a worker, lets the group
follow, and returns the actions that the caller must carry out: it knows no process, no clock and
no file, so that an exhaustive walk over all joint states can prove that nothing gets stuck.
An event that a table does not hold raises `IllegalEvent` and changes nothing.

Rules that the tables rest on:

- The cause is the failure that *happened* first. Events carry the time at which a thing happened
  (nanoseconds of the machine's monotonic clock), not the time at which it was heard of.
- What we ended ourselves is no failure: a rank that ends after its stop signal was *sent*, as the
  process that sent it says, was ended by us, unless it failed before. A report may be heard before
  the news that the signal was sent: the failure that it told is then taken back.
- A rank that told its outcome is on its way out; it gets the stop signal only after `linger`.
- A patient group that fails leaves its other ranks alone: those that work go on, and those that are
  not there yet are still started, within the `START` deadline. That ends with the `PATIENCE`
  deadline, a wish to stop, or a rank that cannot be started: nobody works in half a group.
- Whether a group that failed starts again is the caller's to say (`Swept.again`), who has a clock;
  the next attempt begins with the `BACKOFF` deadline.
- In a group of single ranks (`single`), a failure ends its own rank, by SIGKILL if it does not go;
  only if the caller does not say that the rank starts again (`RankEvent.again`) has the group
  failed.
- Notice may be given of a stop: ranks that know of it may end by themselves, until the `NOTICE`
  deadline.
- What is *wanted* is kept apart from what is: a stop that is requested while a failed group is
  being ended cancels the restart.
- One deadline (`GRACE`) runs from the first stop signal to SIGKILL, for ranks and for whatever
  they left behind; it begins anew only for a wish to stop that is in a hurry. A second (`REAP`)
  bounds the wait after SIGKILL. A deadline carries its attempt, so that a stale one does nothing.

Rejected: an exit status as a state (a rank that was killed and one that returned are both EXITED;
how it ended is data); a worker that is STOPPING as soon as the signal is asked for (a rank that
died a moment earlier would be taken for one that we ended).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from procession.values import Record, Value


class Worker(enum.Enum):
    """Where a rank's process is in its life."""

    PENDING = "asked for, no process yet"
    STARTING = "a process that has not reached its program"
    RUNNING = "in its program"
    STOPPING = "the stop signal was sent"
    KILLING = "SIGKILL was sent"
    EXITED = "gone"
    LOST = "still there long after SIGKILL"


class WorkerEvent(enum.Enum):
    """What can happen to a rank's process."""

    SPAWNED = "the process exists"
    SPAWN_FAILED = "the process or its program could not be started"
    CANCELLED = "it was never started, and will not be"
    READY = "its program was reached"
    REPORTED = "it told its outcome"
    STOP_SENT = "the stop signal was sent"
    KILL_SENT = "SIGKILL was sent"
    EXITED = "it is gone"
    START_DEADLINE = "it took too long to reach its program"
    REAP_DEADLINE = "it took too long to go after SIGKILL"
    HUNG = "it gave no sign of life for too long"


class Phase(enum.Enum):
    """Where a group is in its life."""

    STARTING = "ranks are being started"
    RUNNING = "every rank reached its program"
    STOPPING = "ranks are being ended"
    SWEEPING = "the ranks are gone; what they left behind is being ended"
    BACKOFF = "all are gone; another attempt is to begin"
    SUCCEEDED = "every rank finished"
    FAILED = "a rank failed"
    STOPPED = "ended on request"

    @property
    def final(self) -> bool:
        """Whether the group has ended."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class GroupEvent(enum.Enum):
    """What can happen to a group."""

    ALL_READY = "every rank reached its program"
    FAILURE = "a rank failed"
    STOP_WANTED = "a stop was requested"
    ALL_GONE = "no rank is left"
    SWEPT = "nothing is left"
    RETRY = "nothing is left, and another attempt is due"
    BACKED_OFF = "it is time for the next attempt"
    GIVEN_UP = "something is left that SIGKILL does not end"


_W, _E = Worker, WorkerEvent
WORKER_TABLE: dict[tuple[Worker, WorkerEvent], Worker] = {
    (_W.PENDING, _E.SPAWNED): _W.STARTING,
    (_W.PENDING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.PENDING, _E.CANCELLED): _W.EXITED,
    (_W.PENDING, _E.REPORTED): _W.PENDING,  # a report may overtake the news of its process
    (_W.PENDING, _E.START_DEADLINE): _W.PENDING,
    (_W.PENDING, _E.REAP_DEADLINE): _W.LOST,
    (_W.STARTING, _E.READY): _W.RUNNING,
    (_W.STARTING, _E.REPORTED): _W.STARTING,
    (_W.STARTING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.STARTING, _E.STOP_SENT): _W.STOPPING,
    (_W.STARTING, _E.KILL_SENT): _W.KILLING,
    (_W.STARTING, _E.EXITED): _W.EXITED,
    (_W.STARTING, _E.START_DEADLINE): _W.STARTING,
    (_W.STARTING, _E.REAP_DEADLINE): _W.LOST,
    (_W.RUNNING, _E.REPORTED): _W.RUNNING,
    (_W.RUNNING, _E.STOP_SENT): _W.STOPPING,
    (_W.RUNNING, _E.KILL_SENT): _W.KILLING,
    (_W.RUNNING, _E.EXITED): _W.EXITED,
    (_W.RUNNING, _E.REAP_DEADLINE): _W.LOST,
    (_W.RUNNING, _E.HUNG): _W.RUNNING,
    (_W.STOPPING, _E.READY): _W.STOPPING,
    (_W.STOPPING, _E.REPORTED): _W.STOPPING,
    (_W.STOPPING, _E.STOP_SENT): _W.STOPPING,  # once more, in a hurry
    (_W.STOPPING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.STOPPING, _E.KILL_SENT): _W.KILLING,
    (_W.STOPPING, _E.EXITED): _W.EXITED,
    (_W.STOPPING, _E.REAP_DEADLINE): _W.LOST,
    (_W.KILLING, _E.READY): _W.KILLING,
    (_W.KILLING, _E.REPORTED): _W.KILLING,
    (_W.KILLING, _E.STOP_SENT): _W.KILLING,  # a lost forkserver's last words may come late
    (_W.KILLING, _E.SPAWN_FAILED): _W.EXITED,
    (_W.KILLING, _E.KILL_SENT): _W.KILLING,
    (_W.KILLING, _E.EXITED): _W.EXITED,
    (_W.KILLING, _E.REAP_DEADLINE): _W.LOST,
}

_P, _G = Phase, GroupEvent
GROUP_TABLE: dict[tuple[Phase, GroupEvent], Phase | None] = {
    # None: the end, which `Lifecycle.verdict` names from how the ranks ended.
    (_P.STARTING, _G.ALL_READY): _P.RUNNING,
    (_P.STARTING, _G.FAILURE): _P.STOPPING,
    (_P.STARTING, _G.STOP_WANTED): _P.STOPPING,
    (_P.RUNNING, _G.FAILURE): _P.STOPPING,
    (_P.RUNNING, _G.STOP_WANTED): _P.STOPPING,
    (_P.RUNNING, _G.ALL_GONE): _P.SWEEPING,
    (_P.STOPPING, _G.FAILURE): _P.STOPPING,
    (_P.STOPPING, _G.STOP_WANTED): _P.STOPPING,
    (_P.STOPPING, _G.ALL_GONE): _P.SWEEPING,
    (_P.STOPPING, _G.GIVEN_UP): None,
    (_P.SWEEPING, _G.STOP_WANTED): _P.SWEEPING,
    (_P.SWEEPING, _G.SWEPT): None,
    (_P.SWEEPING, _G.RETRY): _P.BACKOFF,
    (_P.BACKOFF, _G.BACKED_OFF): _P.STARTING,
    (_P.BACKOFF, _G.STOP_WANTED): None,
    (_P.SWEEPING, _G.GIVEN_UP): None,
}

GONE = (Worker.EXITED, Worker.LOST)


class Ended(enum.Enum):
    """How a rank's life ended, seen from its group."""

    FINISHED = "finished"
    FAILED = "failed by itself"
    STOPPED = "ended by the group"
    NEVER_STARTED = "never started"
    LOST = "lost"


class DeadlineKind(enum.Enum):
    """What a deadline is for."""

    START = "every rank has reached its program"
    PATIENCE = "ranks of a failed group have ended by themselves"
    NOTICE = "ranks that were told of the stop have ended by themselves"
    LINGER = "ranks that told their outcome are gone"
    GRACE = "ranks have obeyed the stop signal"
    REAP = "killed processes are gone"
    BACKOFF = "the next attempt begins"


# -- events: what the caller tells


class RankEvent(Value):
    """Something happened to a rank, `at` nanoseconds; `ok`: its report or exit is a good one.

    again: of the exit of a single rank: if it failed, it is to start again.
    """

    kind: WorkerEvent
    rank: int
    at: int = 0
    ok: bool = True
    again: bool = False


class Deadline(Value):
    """A deadline of an attempt has passed."""

    kind: DeadlineKind
    attempt: int
    at: int = 0


class StopWanted(Value):
    """Somebody wants the group to end.

    kill: at once, by SIGKILL. hurry: the caller has another stop signal, or less time: if the group
    is being ended already, send the stop signal again and let the grace period begin anew.
    notice: let ranks end by themselves first, if all have reached their program.
    """

    kill: bool = False
    hurry: bool = False
    notice: bool = False


class Swept(Value):
    """Nothing that the ranks of this attempt started is left. again: if it failed, start again."""

    attempt: int
    again: bool = True


Event = RankEvent | Deadline | StopWanted | Swept


# -- actions: what the caller must do


class Spawn(Value):
    """Start the processes of this attempt: of all ranks, or of one that starts again."""

    attempt: int
    rank: int | None = None


class Cancel(Value):
    """Start none of the processes that do not exist yet, and tell which those are."""


class Signal(Value):
    """Send the stop signal (or SIGKILL) to these ranks, and tell when it was sent."""

    ranks: tuple[int, ...]
    kill: bool = False


class Sweep(Value):
    """End what the ranks left behind: by the stop signal, or at once by SIGKILL."""

    kill: bool = False


class Arm(Value):
    """Tell this deadline when its time has passed; it replaces one of the same kind."""

    deadline: Deadline


class End(Value):
    """The group has ended."""

    phase: Phase


Action = Spawn | Cancel | Signal | Sweep | Arm | End


class IllegalEvent(Exception):
    """An event came that the tables do not allow in this state: a defect of the caller."""


class Rank(Record):
    """What the lifecycle knows of a rank in this attempt."""

    state: Worker = Worker.PENDING
    reported: bool = False
    reported_ok: bool = False
    asked: bool = False  # to stop
    stop_at: int | None = None  # when the first signal was sent
    failed_at: int | None = None
    failed_nth: int = 0  # in the order in which failures were heard of, from 1
    start_failed: bool = False
    ended: Ended | None = None
    reported_at: int = 0


class Lifecycle(Record):
    """The joint state of a group. Tell it events with `handle`; do what it returns."""

    nproc: int
    restarts: int = 0
    patient: bool = False  # after a failure, others may end by themselves first
    single: bool = False  # each rank may fail, and start again, by itself
    phase: Phase = Phase.STARTING
    attempt: int = 0
    stop_wanted: bool = False
    waiting: bool = False  # in STOPPING, and nobody was told to stop yet
    killing: bool = False
    left_behind: bool = False
    ranks: Sequence[Rank] = ()
    _last_asked = 0  # no field: it says nothing of the state

    def begin(self) -> list[Action]:
        """Give the actions that start the first attempt. To be called once."""
        self.ranks = [Rank() for _ in range(self.nproc)]
        return [Spawn(self.attempt), self._arm(DeadlineKind.START)]

    def handle(self, event: Event) -> list[Action]:
        """Take one event and return what to do now, in order. Raises IllegalEvent."""
        if isinstance(event, RankEvent):
            return self._rank_event(event)
        if isinstance(event, Deadline):
            return self._deadline(event)
        if isinstance(event, StopWanted):
            return self._stop_wanted(event)
        if event.attempt != self.attempt or self.phase.final:
            return []
        if event.again and self._retry_due():
            self._group(GroupEvent.RETRY)
            return [self._arm(DeadlineKind.BACKOFF)]
        return self._group(GroupEvent.SWEPT)

    # -- what is known

    @property
    def failures(self) -> list[int]:
        """Ranks that failed by themselves, in the order in which it happened."""
        failed = [r for r, rank in enumerate(self.ranks) if rank.failed_at is not None]
        # Of failures with one time stamp, the one that was heard of first stays first.
        return sorted(failed, key=lambda r: (self.ranks[r].failed_at, self.ranks[r].failed_nth))

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
        after = WORKER_TABLE.get((rank.state, event.kind))
        if after is None or self.phase.final:
            raise IllegalEvent(
                f"rank {event.rank} is {rank.state.name} in a group that is {self.phase.name} "
                f"(attempt {self.attempt}): {event.kind.name} cannot happen"
            )
        rank.state = after
        failed_before = rank.failed_at is not None
        self._account(rank, event)
        actions: list[Action] = []
        failed, gone = rank.failed_at is not None, rank.state in GONE
        news = failed and not failed_before
        if news:
            rank.failed_nth = len(self.failures)
        alone = self._single_ones_work and not rank.start_failed
        if alone and failed and gone and event.again:
            return self._revive(event.rank)
        if alone and news and not gone:
            actions += self._end_one(event)  # the group hears of it when it is gone
        elif news or (self._single_ones_work and failed and (gone or rank.start_failed)):
            actions += self._group(GroupEvent.FAILURE)
        if self.waiting and rank.start_failed:
            actions += self._stop()
        if event.kind is WorkerEvent.SPAWNED and self.phase is Phase.STOPPING and not self.waiting:
            if rank.reported and not self.killing:
                actions.append(self._arm(DeadlineKind.LINGER))
            else:
                actions += self._signal([event.rank])
        if self.phase is Phase.STARTING and self._all_are((Worker.RUNNING, *GONE)):
            actions += self._group(GroupEvent.ALL_READY)
        if self.phase is not Phase.SWEEPING and self._all_are(GONE):
            actions += self._group(GroupEvent.ALL_GONE)
        return actions

    @property
    def _single_ones_work(self) -> bool:
        """Whether a failure is, for now, the matter of its rank alone."""
        return self.single and self.phase in (Phase.STARTING, Phase.RUNNING)

    def _revive(self, rank: int) -> list[Action]:
        self.ranks = [Rank() if r == rank else each for r, each in enumerate(self.ranks)]
        return [Spawn(self.attempt, rank), self._arm(DeadlineKind.START)]

    def _end_one(self, event: RankEvent) -> list[Action]:
        """End a single rank that has failed and is still there."""
        if event.kind is not WorkerEvent.HUNG:
            return [self._arm(DeadlineKind.LINGER)]
        return [*self._signal([event.rank], kill=True), self._arm(DeadlineKind.REAP)]

    def _all_are(self, states: tuple[Worker, ...]) -> bool:
        """Tell whether every rank is in one of these states; asked after each event."""
        for _ in range(self.nproc):
            if self.ranks[self._last_asked].state not in states:
                return False  # and the next time it is asked first: no walk along all for each
            self._last_asked = (self._last_asked + 1) % self.nproc
        return True

    def _account(self, rank: Rank, event: RankEvent) -> None:
        """Write down how a rank is ending; each fact is written once."""
        kind = event.kind
        before_stop = rank.stop_at is None or event.at < rank.stop_at
        if kind is WorkerEvent.REPORTED and not rank.reported and before_stop:
            rank.reported, rank.reported_ok, rank.reported_at = True, event.ok, event.at
            if not event.ok and (rank.failed_at is None or event.at < rank.failed_at):
                rank.failed_at = event.at
        elif kind in (WorkerEvent.STOP_SENT, WorkerEvent.KILL_SENT) and rank.stop_at is None:
            rank.stop_at = event.at
            if rank.reported and rank.reported_at >= event.at and not rank.start_failed:
                # Its own word for the signal overtook the news that it was sent.
                rank.reported = rank.reported_ok = False
                if rank.failed_at == rank.reported_at:
                    rank.failed_at = None
        elif kind in (WorkerEvent.SPAWN_FAILED, WorkerEvent.START_DEADLINE):
            rank.start_failed = True
            if rank.failed_at is None and rank.stop_at is None:
                rank.failed_at = event.at
        elif kind is WorkerEvent.HUNG:
            if rank.failed_at is None and not rank.reported:
                rank.failed_at = event.at
        elif kind is WorkerEvent.EXITED:
            if rank.failed_at is None and not event.ok and before_stop:
                rank.failed_at = event.at
        if rank.state is Worker.LOST:
            rank.ended = Ended.LOST
        elif rank.state is Worker.EXITED:
            rank.ended = self._ending(rank, event)

    @staticmethod
    def _ending(rank: Rank, event: RankEvent) -> Ended:
        if rank.failed_at is not None:
            return Ended.FAILED
        if event.kind in (WorkerEvent.CANCELLED, WorkerEvent.SPAWN_FAILED):
            return Ended.NEVER_STARTED
        if rank.stop_at is not None and not rank.reported_ok:
            return Ended.STOPPED
        return Ended.FINISHED

    def _deadline(self, event: Deadline) -> list[Action]:
        if event.attempt != self.attempt or self.phase.final:
            return []
        if event.kind is DeadlineKind.START:
            actions: list[Action] = []
            if self.phase is Phase.STARTING or self.waiting or self._single_ones_work:
                late = [
                    r
                    for r, rank in enumerate(self.ranks)
                    if rank.state in (Worker.PENDING, Worker.STARTING)
                ]
                for r in late:
                    actions += self.handle(RankEvent(WorkerEvent.START_DEADLINE, r, event.at))
            return actions
        if event.kind is DeadlineKind.LINGER:
            if self._single_ones_work:
                failed = (r for r, rank in enumerate(self.ranks) if rank.failed_at is not None)
                return [*self._signal(failed, kill=True), self._arm(DeadlineKind.REAP)]
            if self.phase is not Phase.STOPPING or self.waiting:
                return []
            return self._signal(r for r, rank in enumerate(self.ranks) if not rank.asked)
        if event.kind in (DeadlineKind.PATIENCE, DeadlineKind.NOTICE):
            return self._stop() if self.waiting else []
        if event.kind is DeadlineKind.BACKOFF:
            return self._next_attempt() if self.phase is Phase.BACKOFF else []
        if event.kind is DeadlineKind.GRACE:
            stopping = self.phase in (Phase.STOPPING, Phase.SWEEPING) and not self.waiting
            return self._kill() if stopping and not self.killing else []
        if self._single_ones_work:
            return self._give_up_ones(event.at)
        ending = self.phase in (Phase.STOPPING, Phase.SWEEPING)
        return self._give_up(event.at) if self.killing and ending else []

    def _stop_wanted(self, event: StopWanted) -> list[Action]:
        if self.phase.final:
            return []
        noticed = self.stop_wanted and self.waiting
        self.stop_wanted = True
        if noticed and not (event.kill or event.hurry):
            return []
        if event.notice and self.phase is Phase.RUNNING and not event.kill:
            self.phase = GROUP_TABLE[self.phase, GroupEvent.STOP_WANTED] or self.phase
            self.waiting = True
            return [self._arm(DeadlineKind.NOTICE)]
        actions = self._stop() if self.waiting else self._group(GroupEvent.STOP_WANTED)
        if self.phase.final:
            return actions
        if event.kill and not self.killing:
            return [a for a in actions if not isinstance(a, Signal)] + self._kill()
        if event.hurry and not actions and not self.killing:  # it was being ended already
            return self._hurry()
        return actions

    # -- consequences

    def _group(self, event: GroupEvent) -> list[Action]:
        key = (self.phase, event)
        if key not in GROUP_TABLE:
            raise IllegalEvent(f"a group that is {self.phase.name} cannot take {event.name}")
        before, after = self.phase, GROUP_TABLE[key]
        self.phase = self.verdict() if after is None else after
        if self.phase is before:
            return []
        if self.phase is Phase.STOPPING:
            started = not any(rank.start_failed for rank in self.ranks)
            if self.patient and event is GroupEvent.FAILURE and started:
                self.waiting = True
                return [self._arm(DeadlineKind.PATIENCE)]
            return self._stop()
        if self.phase is Phase.SWEEPING:
            sweep: list[Action] = [Sweep(kill=self.killing)]
            if before is not Phase.STOPPING or self.waiting:  # the one deadline begins here
                self.waiting = False
                sweep.append(self._arm(DeadlineKind.GRACE))
            return sweep
        return [End(self.phase)] if self.phase.final else []

    def _stop(self) -> list[Action]:
        self.waiting = False
        return [*self._signal_running(), self._arm(DeadlineKind.GRACE)]

    def _signal_running(self) -> list[Action]:
        """Stop the ranks that still work, and give those that told their outcome a moment."""
        alive = [
            (r, rank)
            for r, rank in enumerate(self.ranks)
            if rank.state in (Worker.STARTING, Worker.RUNNING) and not rank.asked
        ]
        actions: list[Action] = []
        if any(rank.state is Worker.PENDING for rank in self.ranks):
            actions.append(Cancel())
        actions += self._signal(r for r, rank in alive if not rank.reported)
        if any(rank.reported for _, rank in alive):
            actions.append(self._arm(DeadlineKind.LINGER))
        return actions

    def _signal(self, ranks: Iterable[int], *, kill: bool = False) -> list[Action]:
        chosen = tuple(r for r in ranks if self.ranks[r].state not in (Worker.PENDING, *GONE))
        for r in chosen:
            self.ranks[r].asked = True
        return [Signal(chosen, kill=kill or self.killing)] if chosen else []

    def _hurry(self) -> list[Action]:
        again: list[Action] = [Sweep()]
        if self.phase is Phase.STOPPING:
            again = self._signal(r for r, rank in enumerate(self.ranks) if rank.asked)
        return [*again, self._arm(DeadlineKind.GRACE)]

    def _kill(self) -> list[Action]:
        self.killing = True
        actions: list[Action] = [self._arm(DeadlineKind.REAP)]
        if self.phase is Phase.SWEEPING:
            return [Sweep(kill=True), *actions]
        return self._signal(range(self.nproc)) + actions

    def _give_up(self, at: int) -> list[Action]:
        for r, rank in enumerate(self.ranks):
            if rank.state not in GONE:
                self._lose(r, at)
        self.left_behind = True
        return self._group(GroupEvent.GIVEN_UP)

    def _give_up_ones(self, at: int) -> list[Action]:
        """Give up single ranks that SIGKILL did not end, and with them the group."""
        late = [r for r, k in enumerate(self.ranks) if k.asked and k.state not in GONE]
        for r in late:
            self._lose(r, at)
        actions = self._group(GroupEvent.FAILURE) if late else []
        if late and self._all_are(GONE):
            actions += self._group(GroupEvent.ALL_GONE)
        return actions

    def _lose(self, r: int, at: int) -> None:
        rank = self.ranks[r]
        rank.state = WORKER_TABLE[rank.state, WorkerEvent.REAP_DEADLINE]
        self._account(rank, RankEvent(WorkerEvent.REAP_DEADLINE, r, at))
        self.left_behind = True

    def _retry_due(self) -> bool:
        return (
            self.phase is Phase.SWEEPING
            and self.attempt < self.restarts
            and not self.stop_wanted
            and self.verdict() is Phase.FAILED
            and not any(r.start_failed or r.ended is Ended.LOST for r in self.ranks)
        )

    def _next_attempt(self) -> list[Action]:
        self._group(GroupEvent.BACKED_OFF)
        self.attempt += 1
        self.killing = False
        return self.begin()

    def _arm(self, kind: DeadlineKind) -> Arm:
        return Arm(Deadline(kind, self.attempt))
