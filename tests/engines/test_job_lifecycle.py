"""A job over nodes, without sockets, clocks or engines: rules, and a walk over all states."""

import copy

import pytest

from seams.jobs import (
    Decided,
    Drop,
    Happened,
    IllegalEvent,
    JobArm,
    JobDeadline,
    JobDeadlineKind,
    JobLife,
    JobPhase,
    JobStop,
    JobStopWanted,
    Launch,
    Leaves,
    Meet,
    Met,
    Slot,
    SlotEvent,
)


def told(kind, slot, **more):
    return Happened(SlotEvent[kind], slot, **more)


def joined(nodes=2, slots=2):
    life = JobLife.of(nodes, slots)
    assert life.begin_job() == [JobArm(JobDeadline(JobDeadlineKind.GATHER, 0))]
    actions = [a for slot in range(slots) for a in life.handle(told("JOINED", slot))]
    return life, actions


def running(nodes=2, slots=2):
    life, actions = joined(nodes, slots)
    assert Meet(0) in actions
    assert life.handle(Met(0)) == [Launch(0, tuple(range(nodes)))]
    for slot in range(nodes):
        assert life.phase is JobPhase.STARTING
        life.handle(told("READY", slot))
    assert life.phase is JobPhase.RUNNING
    return life


def elastic(least, most, there, **how):
    """A job that began with `there` nodes, in slots from 0 on."""
    life = JobLife.of(most, most + 1, least=least, open=True, **how)
    actions = life.begin_job()
    life.keys = {slot: (f"host{9 - slot}", 1) for slot in range(most + 1)}
    for slot in range(there):
        actions += life.handle(told("JOINED", slot))
    if there < most:
        assert actions[-1] == JobArm(JobDeadline(JobDeadlineKind.LAST_CALL, 0))
        actions = life.handle(JobDeadline(JobDeadlineKind.LAST_CALL, 0))
    places = tuple(range(there))[::-1]  # by their keys
    assert actions[-1] == Meet(places[0])
    assert life.handle(Met(0)) == [Launch(0, places)]
    for slot in range(there):
        life.handle(told("READY", slot))
    assert life.phase is JobPhase.RUNNING
    return life


def next_attempt(life):
    """The actions from the end of all ranks to the launch of the next attempt."""
    actions = [a for slot in life.busy for a in life.handle(told("ENDED", slot, ok=False))]
    number = life.attempt
    assert actions[-1] == JobArm(JobDeadline(JobDeadlineKind.BACKOFF, number))
    actions += life.handle(JobDeadline(JobDeadlineKind.BACKOFF, number))
    if life.phase is JobPhase.GATHERING:
        actions += life.handle(JobDeadline(JobDeadlineKind.LAST_CALL, number + 1))
    return actions + life.handle(Met(number + 1))


def test_the_host_ends_a_job_that_others_may_go_on_with():
    """It needs half of the last world, and of those before until all nodes know the last one."""
    life = elastic(1, 4, 4, elects=True)
    assert life.handle(told("GONE", 3))[0] == JobStop((0, 1, 2), failed=True)
    assert life.handle(told("GONE", 2)) == []
    assert not life.isolated  # the host has the casting vote
    assert next_attempt(life)[-1] == Launch(1, (1, 0))
    life.handle(told("READY", 0))
    again = copied(life)
    life.handle(told("GONE", 1))  # before it has said that it knows of this attempt
    assert life.isolated
    life.handle(told("ENDED", 0))
    assert life.handle(Decided(1, again=True)) == []
    assert life.phase is JobPhase.FAILED
    again.handle(told("READY", 1))
    again.handle(told("GONE", 1))
    assert next_attempt(again)[-1] == Launch(2, (0,))


def test_nodes_that_leave_have_agreed():
    life = elastic(1, 4, 4, elects=True)
    for slot in (1, 2, 3):
        life.handle(Leaves(slot))
    assert next_attempt(life)[-1] == Launch(1, (0,))


def test_a_new_host_needs_more_than_half_of_the_last_world():
    life = JobLife.of(4, 5, least=1, open=True, elects=True)
    life.inherit(attempt=3, regrouped=2, size=4)
    life.begin_job()

    def votes(slot):
        life.take_vote(slot)
        return life.handle(told("JOINED", slot))

    assert votes(0) == []
    assert life.handle(told("JOINED", 3)) == []  # a node of no world
    assert votes(1) == []
    assert votes(2)[-1] == JobArm(JobDeadline(JobDeadlineKind.LAST_CALL, 3))
    assert life.handle(told("GONE", 2)) == []
    assert life.handle(JobDeadline(JobDeadlineKind.LAST_CALL, 3)) == []
    assert life.handle(JobDeadline(JobDeadlineKind.GATHER, 3)) == []
    assert life.phase is JobPhase.FAILED


@pytest.mark.parametrize("news", ["GONE 2, ENDED 0, ENDED 1", "ENDED 0, ENDED 1, ENDED 2, GONE 2"])
def test_where_fewer_than_the_least_are_left_the_attempt_has_failed(news):
    """So it counts as a restart, and is no change of the size."""
    life, due = elastic(3, 4, 4), JobDeadline(JobDeadlineKind.BACKOFF, 0)
    events = [told(each[:-2], int(each[-1])) for each in ["GONE 3", *news.split(", ")]]
    for event in (*events, due, Decided(0, again=True), due):
        life.handle(event)
    assert (life.phase, life.attempt, life.regrouped) == (JobPhase.GATHERING, 1, 0)


def test_stops():
    life = running()
    assert life.handle(JobStopWanted()) == [
        JobStop((0, 1)),
        JobArm(JobDeadline(JobDeadlineKind.STOP, 0)),
    ]
    assert life.handle(JobStopWanted()) == []
    killed = [JobStop((0, 1), kill=True), JobArm(JobDeadline(JobDeadlineKind.KILL, 0))]
    assert copy.deepcopy(life).handle(JobStopWanted(kill=True)) == killed
    assert life.handle(JobDeadline(JobDeadlineKind.STOP, 0)) == killed
    life.handle(told("ENDED", 1))
    assert life.handle(JobDeadline(JobDeadlineKind.KILL, 0)) == [Drop((0,))]
    assert life.handle(told("GONE", 0)) == []
    assert life.phase is JobPhase.STOPPED
    assert life.failed == ()


def test_what_cannot_be_is_refused_and_changes_nothing():
    life = running()
    before = copy.deepcopy(life)
    with pytest.raises(IllegalEvent, match="slot 0 is BUSY: JOINED"):
        life.handle(told("JOINED", 0))
    assert life == before


def choices(life):
    """Give every event that may come in this state, from slots, the driver and the user."""
    for slot, state in enumerate(life.slots):
        if state is Slot.AWAITED:
            yield told("JOINED", slot)
        if state is Slot.BUSY:
            if slot not in life.ready:
                yield told("READY", slot)
            if slot not in life.failed:
                yield told("FAILED", slot)
            yield told("ENDED", slot, ok=slot not in life.failed)
        if state is not Slot.GONE:
            yield told("GONE", slot)
    if life.phase is JobPhase.MEETING:
        yield Met(life.attempt)
    if life.phase is JobPhase.DECIDING:
        yield Decided(life.attempt, again=life.attempt < 2)
        yield Decided(life.attempt, again=False)
    for kind in JobDeadlineKind:
        if kind is not JobDeadlineKind.BACKOFF or life.attempt < (1 if life.open else 2):
            yield JobDeadline(kind, life.attempt)
    for slot in range(life.count):
        if life.can_spare(slot):
            yield Leaves(slot)
    yield JobStopWanted()
    yield JobStopWanted(kill=True)


def key(life):
    told = {**vars(life), "slots": tuple(life.slots), "ready": frozenset(life.ready)}
    del told["tally"], told["node_at"], told["keys"]  # which follow from the others
    return tuple(told.values())


def copied(life):
    """Copy what an event may change."""
    again = copy.copy(life)
    again.slots, again.tally, again.ready = [*life.slots], {**life.tally}, {*life.ready}
    return again


@pytest.mark.timeout(300)  # 7 s of computing alone; a busy machine takes longer
@pytest.mark.parametrize(
    ("nodes", "slots", "how"),
    [
        (1, 1, {"replaces": False}),
        (1, 1, {"replaces": True}),
        pytest.param(2, 2, {"replaces": True}, marks=pytest.mark.long),
        (1, 2, {"replaces": False}),
        pytest.param(2, 2, {"open": True}, marks=pytest.mark.long),
        pytest.param(2, 2, {"open": True, "least": 1}, marks=pytest.mark.long),
        (1, 2, {"open": True, "sealed": True}),
        pytest.param(2, 3, {"replaces": False}, marks=pytest.mark.long),
        pytest.param(2, 3, {"open": True, "sealed": True}, marks=pytest.mark.long),
        pytest.param(2, 2, {"open": True, "least": 1, "elects": True}, marks=pytest.mark.long),
        (1, 2, {"open": True, "least": 1, "elects": True}),
    ],
)
def test_walk_over_all_states(nodes, slots, how):
    """From every state that can be reached, some way leads to an end; no end is left."""
    first = JobLife.of(nodes, slots, **how)
    seen, ends, leads_to = {key(first): first}, set(), {}
    todo = [first]
    while todo:
        life = todo.pop()
        here = key(life)
        assert life.tally == {state: life.slots.count(state) for state in Slot}
        assert [life.node_of(slot) for slot in life.places] == [*range(len(life.places))]
        if not life.phase.final:
            assert bool(life.places) == (life.phase is not JobPhase.GATHERING)
        if life.phase.final:
            ends.add(here)
            assert not life.busy
            continue
        if life.phase in (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.STOPPING):
            assert life.busy
        for event in choices(life):
            if life.elects and (isinstance(event, Leaves) or event == JobStopWanted(kill=True)):
                continue  # the walk without elections has these; with both it takes long
            later = copied(life)
            for action in later.handle(event):
                if isinstance(action, Launch):
                    assert not later.isolated
                    assert first.least <= len(set(action.slots)) == later.nodes <= nodes
                    assert all(later.slots[s] is Slot.BUSY for s in action.slots)
                if isinstance(action, JobStop):
                    assert action.slots
                assert not later.phase.final
            leads_to.setdefault(key(later), set()).add(here)
            if key(later) not in seen:
                seen[key(later)] = later
                todo.append(later)
    reach, todo = set(ends), list(ends)
    while todo:
        for before in leads_to.get(todo.pop(), ()):
            if before not in reach:
                reach.add(before)
                todo.append(before)
    assert reach == set(seen)
    assert {seen[e].phase for e in ends} == {p for p in JobPhase if p.final}
