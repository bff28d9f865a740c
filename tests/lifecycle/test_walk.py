"""Exhaustive walks over all joint states of a few ranks, patient or not.

From each state every event that may really come (see `world.World.events`) is told to a copy; the
states that follow are visited once. States that differ only in what no later step can tell apart
are one (see `key_of`), and ranks are interchangeable. The long walk, of three ranks, has 36,000
states and 620,000 steps: pytest -m long.
"""

from typing import NamedTuple

import pytest

from seams.rules import (
    GONE,
    TABLES,
    WORKER_TABLE,
    Deadline,
    DeadlineKind,
    Ended,
    GroupEvent,
    IllegalEvent,
    Phase,
    RankEvent,
    RankState,
    Stage,
    StopWanted,
    Swept,
    Worker,
    WorkerEvent,
    tables,
)
from seams.rules import lifecycle as rules

from .world import ALIVE, KEPT, KILLS, NOT_THERE_YET, World

# A walk goes on until no new state is found. The number of states bounds it, not a clock. The limit
# is for each walk on a slow, busy machine.
pytestmark = [pytest.mark.timeout(1200)]


class Size(NamedTuple):
    """What is walked. least, most: states; a rule that makes more of them is to be thought about.

    unseen: what does not happen in it.
    """

    nproc: int
    single: bool
    least: int
    most: int
    unseen: set = frozenset()


# With three ranks that may hang, or are given notice, it would take too long.
NO_HANGS = {WorkerEvent.HUNG, GroupEvent.HUNG, GroupEvent.NOTICE_WANTED, Stage.NOTICE}
SIZES = [
    pytest.param(Size(2, False, 1_000, 20_000), id="two"),
    pytest.param(Size(2, True, 1_000, 20_000), id="two single ones", marks=pytest.mark.long),
    pytest.param(Size(3, False, 20_000, 80_000, NO_HANGS), id="three", marks=pytest.mark.long),
]
BEFORE_CAUSE, AFTER_CAUSE, NOW, LATER = 5, 50, 1000, 2000
KINDS = [kind for kind in DeadlineKind if kind not in tables.OF_A_RANK]
WORKERS, STAGES, ENDINGS = list(Worker), list(Stage), [None, *Ended]
NUMBER = {m: i for kind in (WORKERS, STAGES, ENDINGS) for i, m in enumerate(kind)}
SENT = (Worker.STOPPING, Worker.KILLING)
# When a rank failed or reported, in a key: False, True, or:
LATE = 2  # after our signal, of which we have not heard yet
NO_START = 3


def key_of(world):
    """Give what tells a state from others. Left out, because nothing reads it any more:

    - of a rank that is gone, all but how it ended;
    - which of those that are gone did not start: one is enough to forbid another attempt;
    - the order of failures: the walk makes one before the cause and one after it from each state;
    - whether a group is patient where it can fail no more: the patient stands for both;
    - a deadline or an answer that would find nothing to do.
    """
    life, unasked, pending, starting, start_failed = world.life, False, False, False, False
    ranks = []
    for r, rank in enumerate(life.ranks):
        state, failed = rank.state, rank.failed_at is not None
        start_failed = start_failed or rank.start_failed
        if state in GONE:
            ranks.append((NUMBER[state], False, False, False, failed, NUMBER[rank.ended], 0, ()))
            continue
        pending = pending or state is Worker.PENDING
        starting = starting or state in NOT_THERE_YET
        unasked = unasked or (state in ALIVE and not rank.asked)
        if failed and rank.stop_at is None and rank.failed_at >= NOW:
            failed = LATE
        reported = rank.reported
        if reported and rank.stop_at is None and rank.reported_at >= NOW:
            reported = LATE
        if failed and rank.start_failed:
            failed = NO_START
        told = reported, rank.reported_ok, rank.asked, failed
        again = rank.attempt > 0 and state in NOT_THERE_YET
        own = tuple(kind.name for kind in tables.OF_A_RANK if _may_pass(world, kind, r))
        ranks.append((NUMBER[state], *told, 0, again, own))
    may_fail = life.phase in (Phase.STARTING, Phase.RUNNING)
    return (
        NUMBER[life.stage],
        life.stop_wanted,
        start_failed,
        life.left_behind,
        world.cancel_due and pending,
        world.sweep_due,
        life.patient or not may_fail,
        life.single,
        (
            DeadlineKind.START in world.armed
            and (life.phase is Phase.STARTING or (life.waiting and starting)),
            DeadlineKind.PATIENCE in world.armed and life.waiting,
            DeadlineKind.NOTICE in world.armed and life.waiting,
            DeadlineKind.LINGER in world.armed and unasked and life.phase is Phase.STOPPING,
            DeadlineKind.GRACE in world.armed,
            DeadlineKind.REAP in world.armed,
        ),
        tuple(sorted(ranks)),
    )


def _may_pass(world, kind, rank):
    """Tell whether a deadline of a rank is armed that would find something to do."""
    life = world.life
    if kind is DeadlineKind.START_IT and life.ranks[rank].state not in NOT_THERE_YET:
        return False
    entry = TABLES[life.patient, life.single].get((life.stage, kind))
    return (kind, rank) in world.armed and entry is not None


def world_of(key):
    """Make the world again from its key."""
    stage, stop_wanted, start_failed, left, cancel, sweep, *rest = key
    patient, single, armed, ranks = rest
    world = World(len(ranks), patient, hangs=may_hang(len(ranks)), single=single)
    life = world.life
    life.stage = STAGES[stage]
    life.stop_wanted, life.left_behind = stop_wanted, left
    life.ranks = []
    known = not start_failed or any(rank[4] == NO_START for rank in ranks)
    for i, (number, reported, good, asked, failed, ended, again, own) in enumerate(ranks):
        state = WORKERS[number]
        life.ranks.append(
            RankState(
                state,
                reported=bool(reported),
                reported_at=LATER if reported == LATE else BEFORE_CAUSE,
                reported_ok=good,
                asked=asked,
                stop_at=NOW if state in SENT else None,
                failed_at=LATER if failed == LATE else 10 + i if failed else None,
                start_failed=failed == NO_START or (i == 0 and not known),
                ended=ENDINGS[ended],
                attempt=int(again),
            )
        )
        for kind in map(DeadlineKind.__getitem__, own):
            world.armed[kind, i] = Deadline(kind, int(again), rank=i)
        # What was asked for may also be answered in an order that the agent does not choose,
        # and the stop signal may have been asked for more than once.
        alone = single and life.phase in (Phase.STARTING, Phase.RUNNING)
        if asked and state in ALIVE and not alone:
            world.stop_due.add(i)
        if asked and (life.stage in KILLS or single) and state in ALIVE:
            world.kill_due.add(i)
    world.cancel_due, world.sweep_due = cancel, sweep
    for kind, is_armed in zip(KINDS, armed, strict=True):
        if is_armed:
            world.armed[kind] = Deadline(kind, 0)
    return world


def copied(world):
    """Copy a world, its ranks and what an event may change in it: faster than from its key."""
    again, life = _copy(world), _copy(world.life)
    again.life, life.ranks = life, [_copy(rank) for rank in life.ranks]
    again.stop_due, again.kill_due = {*world.stop_due}, {*world.kill_due}
    again.armed = {**world.armed}
    return again


def _copy(made):
    """Do what `copy.copy` does for such objects, in a third of the time."""
    again = object.__new__(type(made))
    again.__dict__.update(made.__dict__)
    return again


def may_hang(nproc):
    """Tell in which walks ranks may hang: with three of them it would take too long."""
    return nproc == 2


class Watched(dict):
    """A table that remembers which entries were looked up."""

    def __init__(self, table, fired):
        super().__init__(table)
        self._fired = fired

    def __getitem__(self, key):
        self._fired.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self._fired.add(key)
        return super().get(key, default)


class Walk:
    """All states, the steps between them that a clock alone makes, and what was broken."""

    def __init__(self, size):
        todo, nproc, single = [], size.nproc, size.single
        for patient in (False, True):
            world = World(nproc, patient, hangs=may_hang(nproc), single=single)
            world.begin()
            todo.append(key_of(world))
        self.nproc, self.single, self.size = nproc, single, size
        self.came_from = dict.fromkeys(todo)  # state -> the state before, and the event
        self.by_clock = {}  # state -> the states that follow when a deadline passes
        self.by_stop = {}  # state -> the state that follows when a stop is requested
        self.broken = {check.__name__: None for check in KEPT}
        self.illegal = None
        self.fired = set()
        self.steps = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rules, "WORKER_TABLE", Watched(WORKER_TABLE, self.fired))
            watched = {kind: Watched(table, self.fired) for kind, table in TABLES.items()}
            patch.setattr(tables, "TABLES", watched)
            while todo:
                todo += self._visit(todo.pop())
                assert len(self.came_from) <= size.most, "the walk would take too long"

    def _visit(self, key):
        before = world_of(key)
        failed = any(r.failed_at is not None for r in before.life.ranks)
        moments = (BEFORE_CAUSE, AFTER_CAUSE) if failed else (BEFORE_CAUSE,)
        fresh = []
        self.by_clock[key] = set()
        for event in before.events(moments, NOW, LATER):
            self.steps += 1
            after = copied(before)
            try:
                actions = after.tell(event)
            except IllegalEvent as e:
                self.illegal = self.illegal or f"{self.story(key)} {event}: {e}"
                continue
            self._check(key, before.life, event, after.life, actions)
            new = key_of(after)
            if new not in self.came_from:
                self.came_from[new] = key, event
                fresh.append(new)
            if isinstance(event, Deadline):
                self.by_clock[key].add(new)
            elif event == StopWanted():
                self.by_stop[key] = new
        return fresh

    def _check(self, key, before, event, after, actions):
        for check in KEPT:
            name = check.__name__
            if self.broken[name] is None and not check(before, event, after, actions):
                self.broken[name] = f"{self.story(key)} {event} -> {after} {actions}"

    def story(self, key):
        """Tell how a state was reached."""
        events = []
        while self.came_from[key] is not None:
            key, event = self.came_from[key]
            events.append(str(event))
        return " ".join(reversed(events))


CHECKS = []


def checked(check):
    """Have every walk looked through by this function, which asserts what holds of it."""
    CHECKS.append(check)
    return check


@checked
def all_states_are_visited(walk):
    size = walk.size
    assert len(walk.came_from) > size.least
    assert walk.steps > 10 * size.least
    assert {STAGES[key[0]] for key in walk.came_from} == set(Stage) - size.unseen


@checked
def no_event_that_may_come_is_illegal(walk):
    assert walk.illegal is None


@checked
def every_step_keeps_the_rules(walk):
    assert {rule: step for rule, step in walk.broken.items() if step is not None} == {}


@checked
def something_must_come(walk):
    """A group waits for a deadline, or a rank is alive that nobody ends, in its program."""
    for key, follow in walk.by_clock.items():
        world = world_of(key)
        life = world.life
        if life.phase is Phase.RUNNING or life.waiting:
            assert any(r.state not in GONE for r in life.ranks)
            assert key in walk.by_stop
        elif not life.phase.final:
            assert follow, walk.story(key)
        # The deadline of who waits may be one that never comes.
        for r, rank in enumerate(life.ranks):
            if life.waiting and rank.state in NOT_THERE_YET:
                start = (DeadlineKind.START_IT, r) if rank.attempt else DeadlineKind.START
                assert start in world.armed, walk.story(key)


@checked
def deadlines_alone_lead_to_the_end(walk):
    """Ranks and agent never answer again; the clock and one request to stop end the group."""
    lengths = {}

    def length(key, on_the_way):
        """Give the most steps to the end; a circle would be met again on the way."""
        if STAGES[key[0]].phase.final:
            return 0
        assert key not in on_the_way, walk.story(key)
        if key not in lengths:
            follow = walk.by_clock[key] - {key}  # a deadline passes once
            if STAGES[key[0]].phase is Phase.RUNNING:
                follow = {walk.by_stop[key]}
            elif world_of(key).life.waiting and not world_of(key).life.stop_wanted:
                follow = follow | {walk.by_stop[key]}
            assert follow, walk.story(key)
            lengths[key] = 1 + max(length(k, on_the_way | {key}) for k in follow)
        return lengths[key]

    # START or PATIENCE or NOTICE or the request, then LINGER, GRACE, REAP at the most; single ranks
    # may have had LINGER, REAP and START for themselves before.
    longest = 7 if walk.single else 4
    assert max(length(key, frozenset()) for key in walk.came_from) == longest


@checked
def a_request_to_stop_is_always_taken(walk):
    for key, after in walk.by_stop.items():
        assert STAGES[after[0]].phase in (Phase.STOPPING, Phase.SWEEPING), walk.story(key)
        noticed = world_of(key).life.waiting and world_of(key).life.stop_wanted
        if not noticed:
            assert not world_of(after).life.waiting, walk.story(key)
    open_ones = [key for key in walk.came_from if not STAGES[key[0]].phase.final]
    assert len(walk.by_stop) == len(open_ones)


@checked
def every_entry_of_the_tables_fires(walk):
    entries = {*WORKER_TABLE, *TABLES[False, walk.single], *TABLES[True, walk.single]}
    assert {key for key in entries - walk.fired if walk.size.unseen.isdisjoint(key)} == set()


@checked
def who_is_not_signalled_at_once_is_given_until_linger(walk):
    for key in walk.came_from:
        life = world_of(key).life
        if life.phase is Phase.STOPPING and not life.waiting:
            unasked = any(r.state in ALIVE and not r.asked for r in life.ranks)
            if unasked:
                assert DeadlineKind.LINGER in world_of(key).armed, walk.story(key)


@checked
def only_its_own_deadline_and_a_late_start_end_patience(walk):
    waiting = [key for key in walk.came_from if world_of(key).life.waiting]
    assert len(waiting) > 80
    for key in waiting:
        for kind in (DeadlineKind.LINGER, DeadlineKind.GRACE, DeadlineKind.REAP):
            life, untouched = world_of(key).life, world_of(key).life
            assert life.handle(Deadline(kind, life.attempt, LATER)) == []
            assert life == untouched
        life = world_of(key).life
        late = any(r.state in NOT_THERE_YET and not r.attempt for r in life.ranks)
        life.handle(Deadline(DeadlineKind.START, life.attempt, LATER))
        assert life.waiting != late, walk.story(key)


@checked
def stale_deadlines_and_sweeps_do_nothing(walk):
    stale = [Deadline(kind, attempt, LATER) for kind in DeadlineKind for attempt in (-1, 9)]
    stale += [Deadline(kind, 9, LATER, rank=0) for kind in tables.OF_A_RANK]
    stale += [Swept(-1), Swept(9)]
    for key in walk.came_from:
        life, untouched = world_of(key).life, world_of(key).life
        for event in stale:
            assert life.handle(event) == []
        assert life == untouched


@checked
def a_final_state_takes_no_more(walk):
    late = [StopWanted(), StopWanted(kill=True), StopWanted(hurry=True)]
    late += [Deadline(kind, 0, LATER) for kind in DeadlineKind]
    for key in walk.came_from:
        if STAGES[key[0]].phase.final:
            life, untouched = world_of(key).life, world_of(key).life
            for event in (*late, Swept(life.attempt)):
                assert life.handle(event) == []
            assert life == untouched


@checked
def illegal_events_raise_and_change_nothing(walk):
    """Every event of a rank is told in every kind of state, whether it may come or not."""
    kinds = {(key[0], tuple(r[0] for r in key[-1])): key for key in walk.came_from}
    raised = 0
    for key in kinds.values():
        for kind in WorkerEvent:
            for rank in range(walk.nproc):
                life, untouched = world_of(key).life, world_of(key).life
                try:
                    life.handle(RankEvent(kind, rank, LATER, ok=False))
                except IllegalEvent:
                    raised += 1
                    assert life == untouched, f"{walk.story(key)} {kind} {rank}"
                else:
                    state = untouched.ranks[rank].state
                    if state is not Worker.LOST:
                        assert (state, kind) in WORKER_TABLE
        life, untouched = world_of(key).life, world_of(key).life
        if not life.phase.final and life.phase is not Phase.SWEEPING:
            with pytest.raises(IllegalEvent):
                life.handle(Swept(life.attempt))
            assert life == untouched
    assert raised > 500


@pytest.mark.parametrize("size", SIZES)
def test_walk(size):
    """One test, because the walk is long: two workers that share its checks would each walk."""
    walk, failed = Walk(size), []
    for check in CHECKS:
        try:
            check(walk)
        except (AssertionError, pytest.fail.Exception) as e:
            failed.append(f"{check.__name__}: {e}")
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)
