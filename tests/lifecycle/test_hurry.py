"""The rules of a stop in a hurry: the stop signal again, and the grace period anew."""

import copy

import pytest

from seams.rules import Ended, Signal, Sweep, Worker

from .script import GRACE, REAP, Script, arm


def test_who_was_asked_to_stop_is_asked_again():
    group = Script(3).running()
    group("stop wanted")
    group("stop sent", 0)
    group("exited", 1)
    assert group("stop wanted", hurry=True) == [Signal((0, 2)), arm(GRACE)]
    assert group("stop wanted", hurry=True) == [Signal((0, 2)), arm(GRACE)]


def test_who_told_its_outcome_still_lingers():
    group = Script(3).running()
    group("reported", 0)
    group("stop wanted")
    assert group("stop wanted", hurry=True) == [Signal((1, 2)), arm(GRACE)]
    assert group("linger deadline") == [Signal((0,))]
    assert group("stop wanted", hurry=True) == [Signal((0, 1, 2)), arm(GRACE)]


def test_what_ranks_left_behind_is_asked_again():
    group = Script(1).running()
    group("exited", 0)
    assert group("stop wanted", hurry=True) == [Sweep(kill=False), arm(GRACE)]
    assert group("grace deadline") == [Sweep(kill=True), arm(REAP)]


@pytest.mark.parametrize("swept", [False, True])
def test_a_kill_is_not_hurried(swept):
    group = Script(2).running()
    group("stop wanted", kill=True)
    if swept:
        group("exited", 0, ok=False)
        group("exited", 1, ok=False)
    before = copy.deepcopy(group.life)
    assert group("stop wanted", hurry=True) == []
    assert group("stop wanted", hurry=True, kill=True) == []
    assert group.life == before


def test_the_first_signal_says_whether_a_rank_was_ended_by_the_group():
    group = Script(2).running()
    group("stop wanted")
    group("stop sent", 0, at=100)
    group("stop sent", 1, at=100)
    group("stop wanted", hurry=True)
    assert group("stop sent", 0, at=300) == group("stop sent", 1, at=300) == []
    assert group.states == [Worker.STOPPING, Worker.STOPPING]
    group("exited", 0, at=200, ok=False)
    group("exited", 1, at=400, ok=False)
    assert group.endings == [Ended.STOPPED, Ended.STOPPED]


def test_a_late_word_of_the_stop_signal_after_the_kill_changes_nothing():
    group = Script(1).running()
    group("stop wanted")
    group("stop wanted", kill=True)
    group("kill sent", 0)
    before = copy.deepcopy(group.life)
    assert group("stop sent", 0) == []
    assert group.life == before
