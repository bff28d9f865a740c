"""The rules of patience: after a failure, the other ranks may end by themselves first."""

import copy

import pytest

from seams.rules import Cancel, End, Ended, Phase, Signal, Spawn, Sweep, Worker

from .script import BACKOFF, GRACE, LINGER, PATIENCE, REAP, START, Script, arm


def waiting(nproc=3, restarts=0):
    """A group whose rank 0 failed and is gone, while the others work."""
    group = Script(nproc, restarts, patient=True).running()
    assert group("exited", 0, ok=False) == [arm(PATIENCE)]
    assert group.life.waiting
    return group


def test_after_a_failure_nobody_is_told_to_stop():
    group = waiting()
    assert group.phase is Phase.STOPPING
    assert group.states == [Worker.EXITED, Worker.RUNNING, Worker.RUNNING]
    assert group.life.failures == [0]


def test_a_reported_failure_begins_it_while_its_rank_still_lives():
    group = Script(2, patient=True).running()
    assert group("reported", 0, ok=False) == [arm(PATIENCE)]
    assert group("exited", 0, ok=False) == []
    assert group.life.waiting


def test_when_it_has_passed_the_others_are_stopped():
    group = waiting()
    assert group("patience deadline") == [Signal((1, 2)), arm(GRACE)]
    assert not group.life.waiting
    assert group("patience deadline") == []
    assert group("grace deadline") == [Signal((1, 2), kill=True), arm(REAP)]


def test_when_it_has_passed_who_told_its_outcome_may_linger():
    group = waiting()
    group("reported", 1)
    assert group("patience deadline") == [Signal((2,)), arm(LINGER), arm(GRACE)]
    assert group("linger deadline") == [Signal((1,))]


def test_who_ends_by_itself_meanwhile_was_not_ended_by_the_group():
    group = waiting()
    assert group("exited", 1) == []
    assert group("exited", 2, ok=False) == [Sweep(kill=False), arm(GRACE)]
    assert not group.life.waiting
    assert group("patience deadline") == []
    assert group("swept") == [End(Phase.FAILED)]
    assert group.life.failures == [0, 2]
    assert group.endings == [Ended.FAILED, Ended.FINISHED, Ended.FAILED]


def test_what_ranks_left_behind_then_has_the_whole_grace_period():
    group = waiting(2)
    assert group("exited", 1) == [Sweep(kill=False), arm(GRACE)]
    assert group("grace deadline") == [Sweep(kill=True), arm(REAP)]


def test_a_second_failure_neither_ends_it_nor_begins_it_anew():
    group = waiting()
    assert group("exited", 1, ok=False) == []
    assert group.life.waiting
    assert group("patience deadline") == [Signal((2,)), arm(GRACE)]


def test_a_second_failure_that_happened_first_is_the_cause():
    group = Script(3, patient=True).running()
    group("exited", 0, at=500, ok=False)
    group("reported", 1, at=400, ok=False)
    assert group.life.failures == [1, 0]
    assert group.life.waiting


# -- a wish to stop


@pytest.mark.parametrize("hurry", [False, True])
def test_a_wish_to_stop_ends_it(hurry):
    group = waiting()
    assert group("stop wanted", hurry=hurry) == [Signal((1, 2)), arm(GRACE)]
    assert not group.life.waiting
    assert group("patience deadline") == []


def test_a_wish_to_kill_ends_it():
    group = waiting()
    assert group("stop wanted", kill=True) == [arm(GRACE), Signal((1, 2), kill=True), arm(REAP)]
    assert not group.life.waiting
    assert group("patience deadline") == []


def test_a_wish_to_kill_spares_nobody_who_told_its_outcome():
    group = waiting()
    group("reported", 1)
    assert Signal((1, 2), kill=True) in group("stop wanted", kill=True)


def test_a_group_that_was_asked_to_stop_is_not_patient_with_failures():
    group = Script(2, patient=True).running()
    assert group("stop wanted") == [Signal((0, 1)), arm(GRACE)]
    assert group("exited", 0, ok=False) == []
    assert not group.life.waiting


# -- while ranks are still being started


def test_a_failure_does_not_keep_the_others_from_being_started():
    group = Script(2, patient=True)
    group("spawned", 0)
    assert group("exited", 0, ok=False) == [arm(PATIENCE)]
    assert group("spawned", 1) == []
    assert group("ready", 1) == []
    assert group.states[1] is Worker.RUNNING
    assert group.life.waiting
    assert group("patience deadline") == [Signal((1,)), arm(GRACE)]


def test_who_has_no_process_when_it_has_passed_is_cancelled_or_signalled_when_it_has():
    group = Script(4, patient=True)
    group("spawned", 0)
    group("exited", 0, ok=False)
    group("spawned", 1)
    assert group("patience deadline") == [Cancel(), Signal((1,)), arm(GRACE)]
    assert group("cancelled", 2) == []
    assert group("spawned", 3) == [Signal((3,))]


def test_who_is_late_to_start_ends_it():
    group = Script(4, patient=True)
    for r in (0, 1, 2):
        group("spawned", r)
    group("ready", 1)
    group("exited", 0, at=100, ok=False)
    assert group("start deadline", at=1000) == [Cancel(), Signal((1, 2)), arm(GRACE)]
    assert not group.life.waiting
    assert group.life.failures == [0, 2, 3]


def test_who_is_late_to_start_ends_it_although_it_had_failed_before():
    group = Script(2, patient=True)
    group("spawned", 0)
    group("ready", 0)
    assert group("reported", 1, at=100, ok=False) == [arm(PATIENCE)]  # before news of its process
    assert group("start deadline", at=1000) == [Cancel(), Signal((0,)), arm(GRACE)]
    assert group.life.ranks[1].failed_at == 100


def test_the_start_deadline_leaves_it_alone_when_all_have_started():
    group = waiting()
    assert group("start deadline") == []
    assert group.life.waiting


def test_a_group_of_which_a_rank_cannot_be_started_is_stopped_at_once():
    group = Script(3, patient=True)
    group("spawned", 0)
    assert group("spawn failed", 1, ok=False) == [Cancel(), Signal((0,)), arm(GRACE)]
    assert not group.life.waiting


def test_a_rank_that_cannot_be_started_ends_it():
    group = Script(3, patient=True)
    for r in (0, 1):
        group("spawned", r)
    group("exited", 0, ok=False)
    assert group("spawn failed", 2, ok=False) == [Signal((1,)), arm(GRACE)]
    assert not group.life.waiting


def test_the_last_rank_cannot_be_started_while_the_others_are_gone():
    group = Script(2, patient=True)
    group("spawned", 0)
    group("exited", 0, ok=False)
    assert group("spawn failed", 1, ok=False) == [arm(GRACE), Sweep(kill=False)]


# -- attempts


def test_a_restart_begins_without_it_and_is_patient_anew():
    group = waiting(2, restarts=1)
    group("exited", 1)
    assert group("swept") == [arm(BACKOFF)]
    assert group("backoff deadline") == [Spawn(1), arm(START, 1)]
    assert not group.life.waiting
    assert group.phase is Phase.STARTING
    group.running()
    assert group("patience deadline", attempt=0) == []
    assert group("exited", 1, ok=False) == [arm(PATIENCE, 1)]
    before = copy.deepcopy(group.life)
    assert group("patience deadline", attempt=0) == []
    assert group.life == before
    assert group("patience deadline") == [Signal((0,)), arm(GRACE, 1)]


def test_a_wish_to_stop_that_ends_it_cancels_the_restart():
    group = waiting(2, restarts=3)
    group("stop wanted")
    group("stop sent", 1)
    group("exited", 1, ok=False)
    assert group("swept") == [End(Phase.FAILED)]
    assert group.endings == [Ended.FAILED, Ended.STOPPED]


def test_a_group_that_is_not_patient_takes_no_notice_of_its_deadline():
    group = Script(2).running()
    group("exited", 0, ok=False)
    before = copy.deepcopy(group.life)
    assert group("patience deadline") == []
    assert group.life == before
