"""The rules of the lifecycle, one by one, as scripts of events."""

import pytest

from seams.rules import (
    Arm,
    Cancel,
    End,
    Ended,
    IllegalEvent,
    Phase,
    RankEvent,
    Signal,
    Spawn,
    Sweep,
    Worker,
    WorkerEvent,
)

from .script import (
    GRACE,
    LINGER,
    LINGER_IT,
    NOTICE,
    PATIENCE,
    REAP,
    REAP_IT,
    START_IT,
    Script,
    arm,
)

# -- a good life


def test_a_good_life():
    group = Script(2).running()
    assert group("reported", 0) == []
    assert group("exited", 0) == []
    assert group("exited", 1) == [Sweep(kill=False), arm(GRACE)]
    assert group.phase is Phase.SWEEPING
    assert group("swept") == [End(Phase.SUCCEEDED)]
    assert group.endings == [Ended.FINISHED, Ended.FINISHED]


# -- one fate


def test_who_told_its_outcome_while_the_signal_waited_is_on_its_way_out():
    group = Script(4).running()
    (waits, *_) = group("reported", 0, ok=False)
    assert waits == Signal((1, 2, 3))
    group("reported", 1, ok=False)
    group("reported", 2, ok=True)
    assert group.life.after_waiting(waits) == [Signal((3,)), arm(LINGER)]
    group("stop sent", 3)
    assert group("linger deadline") == [Signal((0, 1, 2))]


@pytest.mark.parametrize("at", [100, 1001])
def test_a_rank_that_hangs_has_failed_and_is_stopped_with_the_others(at):
    group = Script(3).running()
    group("reported", 1, at=50)
    assert group("hung", 0, at=at, ok=False) == [Signal((0, 2)), arm(LINGER), arm(GRACE)]
    group("reported", 0, at=1002, ok=False)  # what the signal made of it
    for rank in (0, 2):
        group("stop sent", rank, at=1000)
    assert group.life.failures == [0]
    for rank in range(3):
        group("exited", rank, at=2000, ok=rank == 1)
    assert group("swept") == [End(Phase.FAILED)]
    assert group.endings == [Ended.FAILED, Ended.FINISHED, Ended.STOPPED]


# -- the cause


@pytest.mark.parametrize(
    ("heard", "order"),
    [
        ([(0, 100), (1, 200), (2, 300)], [0, 1, 2]),
        ([(2, 300), (1, 200), (0, 100)], [0, 1, 2]),
        ([(1, 200), (2, 100), (0, 300)], [2, 1, 0]),
        ([(2, 100), (0, 100), (1, 100)], [2, 0, 1]),
    ],
)
def test_failures_are_ordered_by_happening_not_by_hearing(heard, order):
    group = Script(3).running()
    for rank, at in heard:
        group("reported", rank, at=at, ok=False)
    assert group.life.failures == order


# -- what we ended is no failure


@pytest.mark.parametrize("at", [1000, 1001])
@pytest.mark.parametrize("ok", [False, True], ids=["raised", "returned"])
@pytest.mark.parametrize("sent", ["stop sent", "kill sent"])
def test_a_word_for_our_signal_that_overtook_the_news_of_it_is_no_outcome(sent, ok, at):
    group = Script(2).running()
    group("stop wanted", kill=sent == "kill sent")
    assert group("reported", 0, at=at, ok=ok) == []
    assert group.life.failures == ([] if ok else [0])  # as far as is known
    group(sent, 0, at=1000)
    assert group.life.failures == []
    group("exited", 0, at=1002, ok=ok)
    group(sent, 1, at=1000)
    group("exited", 1, at=1003, ok=False)
    assert group("swept") == [End(Phase.STOPPED)]
    assert group.endings == [Ended.STOPPED, Ended.STOPPED]


def test_an_exit_heard_after_the_signal_but_before_it_in_time_is_a_failure():
    group = Script(2).running()
    group("exited", 0, at=100, ok=False)
    group("stop sent", 1, at=300)
    group("exited", 1, at=200, ok=False)
    assert group.life.failures == [0, 1]
    assert group.endings == [Ended.FAILED, Ended.FAILED]


def test_a_rank_that_had_finished_and_was_signalled_has_finished():
    group = Script(2).running()
    group("reported", 0, ok=True)
    group("stop wanted")
    group("linger deadline")
    for r in (0, 1):
        group("stop sent", r)
        group("exited", r, ok=False)
    assert group.endings == [Ended.FINISHED, Ended.STOPPED]
    assert group("swept") == [End(Phase.STOPPED)]


# -- grace, kill, reap, lost


def test_grace_then_kill_then_reap_then_lost():
    group = Script(2).running()
    assert group("stop wanted") == [Signal((0, 1)), arm(GRACE)]
    group("stop sent", 0)
    group("stop sent", 1)
    assert group.states == [Worker.STOPPING, Worker.STOPPING]
    assert group("grace deadline") == [Signal((0, 1), kill=True), arm(REAP)]
    group("kill sent", 0)
    group("kill sent", 1)
    assert group.states == [Worker.KILLING, Worker.KILLING]
    group("exited", 0, ok=False)
    assert group("reap deadline") == [End(Phase.FAILED)]
    assert group.states == [Worker.EXITED, Worker.LOST]
    assert group.endings == [Ended.STOPPED, Ended.LOST]
    assert group.life.left_behind


# -- the start


def test_a_failed_spawn_cancels_the_others():
    group = Script(3)
    group("spawned", 0)
    assert group("spawn failed", 1, ok=False) == [Cancel(), Signal((0,)), arm(GRACE)]
    assert group("cancelled", 2) == []
    group("stop sent", 0)
    assert group("exited", 0, ok=False) == [Sweep(kill=False)]
    assert group("swept") == [End(Phase.FAILED)]
    assert group.life.failures == [1]
    assert group.endings == [Ended.STOPPED, Ended.FAILED, Ended.NEVER_STARTED]


# -- single ranks


def single(nproc):
    group = Script(nproc, single=True).running()
    assert group.life.single
    return group


def fails(group, rank, again):
    return group.life.handle(RankEvent(WorkerEvent.EXITED, rank, 500, ok=False, again=again))


def test_a_single_rank_that_fails_starts_again_and_the_others_go_on():
    group = single(3)
    assert fails(group, 1, again=True) == [Spawn(0, 1), arm(START_IT, 1, 1)]
    assert group.states == [Worker.RUNNING, Worker.PENDING, Worker.RUNNING]
    assert group.phase is Phase.RUNNING
    assert group.life.failures == []


def test_a_single_rank_that_fails_and_stays_is_killed_and_starts_again():
    group = single(2)
    assert group("reported", 0, ok=False) == [arm(LINGER_IT, 0, 0)]
    assert group.phase is Phase.RUNNING
    assert group("linger deadline", 0) == [Signal((0,), kill=True), arm(REAP_IT, 0, 0)]
    group("kill sent", 0)
    assert fails(group, 0, again=True) == [Spawn(0, 0), arm(START_IT, 1, 0)]


def test_a_single_rank_that_cannot_be_killed_ends_the_group():
    group = single(2)
    group("hung", 0, ok=False)
    assert group("reap deadline", 0) == [Signal((1,)), arm(GRACE)]
    assert group.states[0] is Worker.LOST
    assert group.life.left_behind
    group("exited", 1)
    assert group.phase is Phase.SWEEPING


def test_a_single_rank_that_is_gone_and_decided_about_is_not_given_up():
    group = single(2)
    group("hung", 0, ok=False)
    group("kill sent", 0)
    group.life.ranks[0].awaited = True  # its process is gone, which is not an event yet
    assert group("reap deadline", 0) == []
    assert not group.life.left_behind
    group.life.ranks[0].awaited = False
    assert fails(group, 0, again=True) == [Spawn(0, 0), arm(START_IT, 1, 0)]


def test_ranks_that_keep_failing_move_no_deadline_of_another():
    group = single(3)
    hangs = group("reported", 0, ok=False) + group("hung", 1, ok=False)
    armed = {(a.deadline.kind, a.deadline.rank) for a in hangs if isinstance(a, Arm)}
    assert armed == {(LINGER_IT, 0), (REAP_IT, 1)}
    for life in range(3):
        group("reported", 2, ok=False)
        again = fails(group, 2, again=True)
        assert again == [Spawn(0, 2), arm(START_IT, life + 1, 2)]
        assert group("linger deadline", 2, attempt=life) == []
        assert group("spawned", 2) == []
        assert group("ready", 2) == []
    assert group("start deadline", 2) == []
    assert group("linger deadline", 0) == [Signal((0,), kill=True), arm(REAP_IT, 0, 0)]
    assert group("reap deadline", 1) == [Signal((2,)), arm(GRACE)]


def test_the_first_start_does_not_end_a_rank_that_starts_again():
    group = Script(2, single=True)
    group("spawned", 0)
    assert fails(group, 0, again=True) == [Spawn(0, 0), arm(START_IT, 1, 0)]
    group("spawned", 1)
    group("ready", 1)
    assert group("start deadline") == []
    assert arm(GRACE) in group("start deadline", 0)
    assert group.life.failures == [0]


# -- patience, and hurry


def test_a_second_failure_that_happened_first_is_the_cause():
    group = Script(3, patient=True).running()
    assert group("exited", 0, at=500, ok=False) == [arm(PATIENCE)]
    assert group("reported", 1, at=400, ok=False) == []
    assert group.life.failures == [1, 0]
    assert group("patience deadline") == [Signal((2,)), arm(LINGER), arm(GRACE)]


def test_who_is_late_to_start_ends_the_patience():
    group = Script(4, patient=True)
    for r in (0, 1, 2):
        group("spawned", r)
    group("ready", 1)
    group("exited", 0, at=100, ok=False)
    assert group("start deadline", at=1000) == [Cancel(), Signal((1, 2)), arm(GRACE)]
    assert not group.life.waiting
    assert group.life.failures == [0, 2, 3]


# -- notice


def test_with_notice_nobody_is_told_to_stop_until_it_is_over():
    group = Script(2).running()
    assert group("stop wanted", notice=True) == [arm(NOTICE)]
    assert group("stop wanted") == []
    group("exited", 0)
    assert group("notice deadline") == [Signal((1,)), arm(GRACE)]


# -- illegal events


def test_an_illegal_event_says_what_was_told_to_whom():
    group = Script(2)
    with pytest.raises(IllegalEvent) as raised:
        group("ready", 1)
    assert str(raised.value) == (
        "rank 1 is PENDING in a group that is STARTING (attempt 0): READY cannot happen"
    )
    with pytest.raises(IllegalEvent, match=r"^there is no rank 2$"):
        group("spawned", 2)
