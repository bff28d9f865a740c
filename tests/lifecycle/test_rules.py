"""The rules of the lifecycle, one by one, as scripts of events."""

import copy

import pytest

from seams.rules import (
    Cancel,
    End,
    Ended,
    IllegalEvent,
    Lifecycle,
    Phase,
    RankEvent,
    Signal,
    Spawn,
    Sweep,
    Swept,
    Worker,
    WorkerEvent,
)

from .script import BACKOFF, GRACE, LINGER, NOTICE, REAP, START, Script, arm

# -- a good life


def test_begin_asks_for_processes_and_bounds_the_start():
    assert Script(2).first == [Spawn(0), arm(START)]


def test_a_group_runs_when_every_rank_reached_its_program():
    group = Script(2)
    assert group("spawned", 0) == []
    assert group("spawned", 1) == []
    assert group("ready", 1) == []
    assert group.phase is Phase.STARTING
    assert group("ready", 0) == []
    assert group.phase is Phase.RUNNING


def test_a_good_life():
    group = Script(2).running()
    assert group("reported", 0) == []
    assert group("exited", 0) == []
    assert group("exited", 1) == [Sweep(kill=False), arm(GRACE)]
    assert group.phase is Phase.SWEEPING
    assert group("swept") == [End(Phase.SUCCEEDED)]
    assert group.endings == [Ended.FINISHED, Ended.FINISHED]


def test_ranks_may_end_before_the_others_have_started():
    group = Script(2)
    group("spawned", 0)
    group("exited", 0)
    assert group.phase is Phase.STARTING
    group("spawned", 1)
    assert group("exited", 1) == [Sweep(kill=False), arm(GRACE)]
    assert group("swept") == [End(Phase.SUCCEEDED)]


# -- one fate


def test_a_bad_exit_stops_the_others():
    group = Script(3).running()
    assert group("exited", 1, ok=False) == [Signal((0, 2)), arm(GRACE)]
    assert group.phase is Phase.STOPPING
    assert group("stop sent", 0) == group("stop sent", 2) == []
    assert group("exited", 0, ok=False) == []
    assert group("exited", 2, ok=True) == [Sweep(kill=False)]
    assert group("swept") == [End(Phase.FAILED)]
    assert group.life.failures == [1]
    assert group.endings == [Ended.STOPPED, Ended.FAILED, Ended.STOPPED]


def test_a_reported_failure_stops_the_others_while_its_rank_still_lives():
    group = Script(2).running()
    assert group("reported", 0, ok=False) == [Signal((1,)), arm(LINGER), arm(GRACE)]
    assert group.states == [Worker.RUNNING, Worker.RUNNING]
    assert group.life.failures == [0]


def test_who_told_its_outcome_while_the_signal_waited_is_on_its_way_out():
    group = Script(4).running()
    (waits, *_) = group("reported", 0, ok=False)
    assert waits == Signal((1, 2, 3))
    group("reported", 1, ok=False)
    group("reported", 2, ok=True)
    assert group.life.after_waiting(waits) == [Signal((3,)), arm(LINGER)]
    group("stop sent", 3)
    assert group("linger deadline") == [Signal((0, 1, 2))]


def test_a_signal_that_waited_goes_to_all_that_still_work():
    group = Script(3).running()
    (waits, *_) = group("reported", 0, ok=False)
    assert group.life.after_waiting(waits) == [waits]
    group("reported", 1, ok=False)
    group("reported", 2, ok=False)
    assert group.life.after_waiting(waits) == [arm(LINGER)]


def test_a_good_report_does_not_excuse_a_bad_exit():
    group = Script(2).running()
    group("reported", 0, ok=True)
    assert group("exited", 0, ok=False) == [Signal((1,)), arm(GRACE)]
    assert group.endings[0] is Ended.FAILED


def test_a_bad_report_is_not_excused_by_a_good_exit():
    group = Script(1).running()
    group("reported", 0, ok=False)
    group("exited", 0, ok=True)
    assert group("swept") == [End(Phase.FAILED)]


def test_only_the_first_report_counts():
    group = Script(1).running()
    group("reported", 0, ok=True)
    assert group("reported", 0, ok=False) == []
    group("exited", 0)
    assert group("swept") == [End(Phase.SUCCEEDED)]


def test_a_report_may_overtake_the_news_of_its_process():
    group = Script(2)
    actions = group("reported", 0, ok=False)
    assert actions == [Cancel(), arm(GRACE)]
    assert group.states[0] is Worker.PENDING
    assert group.life.failures == [0]


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


def test_a_rank_that_told_its_outcome_and_hangs_has_failed():
    group = Script(2).running()
    group("reported", 0, at=50)
    assert group("hung", 0, at=100, ok=False) == [Signal((0, 1)), arm(GRACE)]
    assert group.life.failures == [0]


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


def test_a_failure_heard_after_the_signal_but_before_it_in_time_counts():
    group = Script(2).running()
    group("exited", 0, at=500, ok=False)
    group("stop sent", 1, at=600)
    group("reported", 1, at=400, ok=False)
    group("exited", 1, at=700, ok=False)
    assert group.life.failures == [1, 0]
    assert group.endings == [Ended.FAILED, Ended.FAILED]


def test_an_exit_is_the_failure_of_a_rank_that_did_not_report():
    group = Script(2).running()
    group("reported", 0, at=300, ok=False)
    group("exited", 1, at=200, ok=False)
    group("exited", 0, at=900, ok=False)
    assert group.life.failures == [1, 0]
    assert group.life.ranks[0].failed_at == 300


def test_a_late_start_stays_the_failure_when_the_rank_fails_once_more():
    group = Script(2)
    for r in (0, 1):
        group("spawned", r)
    group("ready", 1)
    group("start deadline", at=100)
    group("exited", 1, at=150, ok=False)
    group("reported", 0, at=200, ok=False)
    assert group.life.failures == [0, 1]
    assert group.life.ranks[0].failed_at == 100


# -- what we ended is no failure


@pytest.mark.parametrize("at", [500, 501])
@pytest.mark.parametrize("sent", ["stop sent", "kill sent"])
def test_a_rank_that_was_signalled_before_it_ended_is_no_failure(sent, at):
    group = Script(2).running()
    group("stop wanted", kill=sent == "kill sent")
    for r in (0, 1):
        group(sent, r, at=500)
    group("reported", 0, at=at, ok=False)
    group("exited", 0, at=700, ok=False)
    group("exited", 1, at=at, ok=False)
    assert group.life.failures == []
    assert group("swept") == [End(Phase.STOPPED)]
    assert group.endings == [Ended.STOPPED, Ended.STOPPED]


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


def test_a_rank_that_ended_before_its_signal_was_sent_failed_by_itself():
    group = Script(2).running()
    assert group("stop wanted") == [Signal((0, 1)), arm(GRACE)]
    group("exited", 0, ok=False)
    group("stop sent", 1)
    group("exited", 1, ok=False)
    assert group("swept") == [End(Phase.FAILED)]
    assert group.endings == [Ended.FAILED, Ended.STOPPED]


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


def test_all_ranks_finished_although_a_stop_was_wanted():
    group = Script(1).running()
    group("reported", 0)
    group("stop wanted")
    group("exited", 0)
    assert group("swept") == [End(Phase.SUCCEEDED)]


# -- linger


def test_a_rank_that_told_its_outcome_is_signalled_after_linger():
    group = Script(3).running()
    group("reported", 0, ok=True)
    assert group("exited", 1, ok=False) == [Signal((2,)), arm(LINGER), arm(GRACE)]
    assert group("linger deadline") == [Signal((0,))]
    assert group("linger deadline") == []


def test_a_rank_that_goes_in_time_is_not_signalled_after_linger():
    group = Script(3).running()
    group("reported", 0, ok=True)
    group("exited", 1, ok=False)
    group("exited", 0)
    assert group("linger deadline") == []
    assert group.endings[0] is Ended.FINISHED


def test_who_told_its_outcome_before_the_news_of_its_process_may_linger_too():
    group = Script(2)
    group("spawned", 0)
    group("reported", 1, ok=False)
    actions = group("spawned", 1)
    assert not any(isinstance(action, Signal) for action in actions)
    assert arm(LINGER) in actions
    assert group("linger deadline") == [Signal((1,))]


def test_nobody_lingers_when_the_group_is_killed():
    group = Script(2)
    group("spawned", 0)
    group("reported", 1, ok=True)
    group("stop wanted", kill=True)
    assert group("spawned", 1) == [Signal((1,), kill=True)]


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


def test_a_lost_rank_forbids_a_restart_and_says_no_more():
    group = Script(2, restarts=3).running()
    group("exited", 0, ok=False)
    group("grace deadline")
    assert group("reap deadline") == [End(Phase.FAILED)]
    assert group.life.attempt == 0
    assert group("exited", 1, ok=False) == []
    assert group.states[1] is Worker.LOST


def test_ranks_that_the_forkserver_never_told_of_are_given_up():
    group = Script(2)
    assert group("stop wanted", kill=True) == [Cancel(), arm(GRACE), arm(REAP)]
    assert group("reap deadline") == [End(Phase.FAILED)]
    assert group.endings == [Ended.LOST, Ended.LOST]


def test_a_request_to_kill_signals_every_living_rank():
    group = Script(3).running()
    group("exited", 1)
    actions = group("stop wanted", kill=True)
    assert Signal((0, 2), kill=True) in actions
    assert arm(REAP) in actions


def test_a_request_to_kill_after_one_to_stop():
    group = Script(1).running()
    group("stop wanted")
    assert group("stop wanted", kill=True) == [Signal((0,), kill=True), arm(REAP)]
    assert group("stop wanted", kill=True) == []


def test_reap_does_nothing_before_a_kill():
    group = Script(1).running()
    group("stop wanted")
    assert group("reap deadline") == []
    assert group.states == [Worker.RUNNING]


# -- the start


def test_a_missed_start_is_the_failure_of_the_late():
    group = Script(3)
    group("spawned", 0)
    group("ready", 0)
    group("spawned", 1)
    actions = group("start deadline", at=1000)
    assert actions == [Cancel(), Signal((0, 1)), arm(GRACE)]
    assert group.life.failures == [1, 2]
    assert [rank.failed_at for rank in group.life.ranks] == [None, 1000, 1000]


def test_the_start_deadline_does_nothing_when_all_are_ready():
    group = Script(2).running()
    assert group("start deadline") == []
    assert group.life.failures == []


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


def test_a_program_that_cannot_be_executed_fails_after_its_process_was_made():
    group = Script(1)
    group("spawned", 0)
    assert group("spawn failed", 0, ok=False) == [arm(GRACE), Sweep(kill=False)]
    assert group("swept") == [End(Phase.FAILED)]


def test_a_group_that_did_not_start_is_not_started_again():
    group = Script(1, restarts=3)
    group("spawn failed", 0, ok=False)
    assert group("swept") == [End(Phase.FAILED)]


@pytest.mark.parametrize("kill", [False, True])
def test_who_is_started_while_the_group_ends_is_signalled_at_once(kill):
    group = Script(2)
    group("spawned", 0)
    group("stop wanted", kill=kill)
    assert group("spawned", 1) == [Signal((1,), kill=kill)]


def test_a_stop_before_anything_was_started():
    group = Script(2)
    assert group("stop wanted") == [Cancel(), arm(GRACE)]
    group("cancelled", 0)
    assert group("cancelled", 1) == [Sweep(kill=False)]
    assert group("swept") == [End(Phase.STOPPED)]
    assert group.endings == [Ended.NEVER_STARTED, Ended.NEVER_STARTED]


# -- what ranks leave behind


def test_what_outlives_its_grace_is_swept_by_kill():
    group = Script(1).running()
    assert group("exited", 0) == [Sweep(kill=False), arm(GRACE)]
    assert group("grace deadline") == [Sweep(kill=True), arm(REAP)]
    assert group("swept") == [End(Phase.SUCCEEDED)]
    assert not group.life.left_behind


def test_what_outlives_a_kill_is_left_behind():
    group = Script(1).running()
    group("exited", 0)
    group("grace deadline")
    assert group("reap deadline") == [End(Phase.SUCCEEDED)]
    assert group.life.left_behind


def test_one_grace_for_ranks_and_for_what_they_leave():
    group = Script(2).running()
    group("exited", 0, ok=False)
    group("stop sent", 1)
    assert group("exited", 1, ok=False) == [Sweep(kill=False)]  # GRACE runs already


def test_the_sweep_after_a_kill_is_a_kill():
    group = Script(1).running()
    group("stop wanted", kill=True)
    assert group("exited", 0, ok=False) == [Sweep(kill=True)]


def test_a_kill_during_a_sweep():
    group = Script(1).running()
    group("exited", 0)
    assert group("stop wanted") == []
    assert group("stop wanted", kill=True) == [Sweep(kill=True), arm(REAP)]


# -- restarts


def failing_once(group):
    """Let an attempt fail; gives what begins the next one."""
    group("exited", 0, ok=False)
    for r in range(1, group.life.nproc):
        group("stop sent", r)
        group("exited", r, ok=False)
    return swept(group)


def swept(group):
    actions = group("swept")
    if actions != [arm(BACKOFF, group.life.attempt)]:
        return actions
    assert group.phase is Phase.BACKOFF
    return group("backoff deadline")


def test_a_failed_group_starts_again_with_new_ranks():
    group = Script(2, restarts=2).running()
    assert failing_once(group) == [Spawn(1), arm(START, 1)]
    assert group.phase is Phase.STARTING
    assert group.states == [Worker.PENDING, Worker.PENDING]
    assert group.life.failures == []
    assert failing_once(group.running()) == [Spawn(2), arm(START, 2)]
    assert failing_once(group.running()) == [End(Phase.FAILED)]


def test_a_restart_may_succeed():
    group = Script(1, restarts=1).running()
    failing_once(group)
    group.running()("exited", 0)
    assert group("swept") == [End(Phase.SUCCEEDED)]


def test_a_restart_gives_the_stop_signal_and_grace_anew():
    group = Script(2, restarts=1).running()
    group("exited", 0, ok=False)
    group("grace deadline")
    group("kill sent", 1)
    assert group("exited", 1, ok=False) == [Sweep(kill=True)]
    swept(group)
    group.running()
    assert group("exited", 0, ok=False) == [Signal((1,), kill=False), arm(GRACE, 1)]


@pytest.mark.parametrize("wish", [{}, {"kill": True}, {"hurry": True}, {"notice": True}], ids=str)
def test_a_stop_ends_a_group_that_waits_for_its_next_attempt(wish):
    group = Script(1, restarts=1).running()
    group("exited", 0, ok=False)
    assert group("swept") == [arm(BACKOFF, 0)]
    assert group("stop wanted", **wish) == [End(Phase.FAILED)]
    assert group.life.attempt == 0


def test_the_caller_may_say_that_there_is_no_further_attempt():
    group = Script(1, restarts=5).running()
    group("exited", 0, ok=False)
    assert group.life.handle(Swept(0, again=False)) == [End(Phase.FAILED)]


# -- single ranks


def single(nproc):
    group = Script(nproc, single=True).running()
    assert group.life.single
    return group


def fails(group, rank, again):
    return group.life.handle(RankEvent(WorkerEvent.EXITED, rank, 500, ok=False, again=again))


def test_a_single_rank_that_fails_starts_again_and_the_others_go_on():
    group = single(3)
    assert fails(group, 1, again=True) == [Spawn(0, 1), arm(START)]
    assert group.states == [Worker.RUNNING, Worker.PENDING, Worker.RUNNING]
    assert group.phase is Phase.RUNNING
    assert group.life.failures == []


def test_a_single_rank_that_is_not_to_start_again_ends_the_group():
    group = single(2)
    assert fails(group, 1, again=False) == [Signal((0,)), arm(GRACE)]
    assert group.life.failures == [1]


def test_a_single_rank_that_fails_and_stays_is_killed_and_starts_again():
    group = single(2)
    assert group("reported", 0, ok=False) == [arm(LINGER)]
    assert group.phase is Phase.RUNNING
    assert group("linger deadline") == [Signal((0,), kill=True), arm(REAP)]
    group("kill sent", 0)
    assert fails(group, 0, again=True) == [Spawn(0, 0), arm(START)]


def test_a_single_rank_that_hangs_is_killed():
    group = single(2)
    assert group("hung", 0, ok=False) == [Signal((0,), kill=True), arm(REAP)]
    group("kill sent", 0)
    assert fails(group, 0, again=True) == [Spawn(0, 0), arm(START)]


def test_a_single_rank_that_cannot_be_killed_ends_the_group():
    group = single(2)
    group("hung", 0, ok=False)
    assert group("reap deadline") == [Signal((1,)), arm(GRACE)]
    assert group.states[0] is Worker.LOST
    assert group.life.left_behind
    group("exited", 1)
    assert group.phase is Phase.SWEEPING


def test_a_single_rank_that_is_gone_and_decided_about_is_not_given_up():
    group = single(2)
    group("hung", 0, ok=False)
    group("kill sent", 0)
    group.life.ranks[0].awaited = True  # its process is gone, which is not an event yet
    assert group("reap deadline") == []
    assert not group.life.left_behind
    group.life.ranks[0].awaited = False
    assert fails(group, 0, again=True) == [Spawn(0, 0), arm(START)]


# -- notice


def test_with_notice_nobody_is_told_to_stop_until_it_is_over():
    group = Script(2).running()
    assert group("stop wanted", notice=True) == [arm(NOTICE)]
    assert group("stop wanted") == []
    group("exited", 0)
    assert group("notice deadline") == [Signal((1,)), arm(GRACE)]


def test_who_all_end_within_the_notice_have_succeeded():
    group = Script(2).running()
    group("stop wanted", notice=True)
    group("exited", 0)
    assert group("exited", 1) == [Sweep(kill=False), arm(GRACE)]
    assert group("swept") == [End(Phase.SUCCEEDED)]


@pytest.mark.parametrize(
    ("wish", "kill"), [({"kill": True}, True), ({"hurry": True}, False)], ids=["kill", "hurry"]
)
def test_haste_ends_the_notice(wish, kill):
    group = Script(2).running()
    group("stop wanted", notice=True)
    assert Signal((0, 1), kill=kill) in group("stop wanted", **wish)


def test_a_group_that_is_starting_gets_no_notice():
    group = Script(2)
    group("spawned", 0)
    assert group("stop wanted", notice=True) == [Cancel(), Signal((0,)), arm(GRACE)]


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("when", ["while ranks end", "while they are swept up after"])
def test_a_stop_during_a_failing_teardown_cancels_the_restart(when, kill):
    group = Script(2, restarts=3).running()
    group("exited", 0, ok=False)
    if when == "while ranks end":
        group("stop wanted", kill=kill)
    group("stop sent", 1)
    group("exited", 1, ok=False)
    group("stop wanted", kill=kill)
    assert group("swept") == [End(Phase.FAILED)]
    assert group.life.attempt == 0


def test_neither_success_nor_a_stop_restarts():
    good = Script(1, restarts=3).running()
    good("exited", 0)
    assert good("swept") == [End(Phase.SUCCEEDED)]
    stopped = Script(1, restarts=3).running()
    stopped("stop wanted")
    stopped("stop sent", 0)
    stopped("exited", 0, ok=False)
    assert stopped("swept") == [End(Phase.STOPPED)]


@pytest.mark.parametrize("name", ["start", "linger", "grace", "reap"])
def test_deadlines_of_an_earlier_attempt_do_nothing(name):
    group = Script(2, restarts=1).running()
    failing_once(group)
    group("spawned", 0)
    before = copy.deepcopy(group.life)
    assert group(f"{name} deadline", attempt=0) == []
    assert group.life == before


def test_a_sweep_of_an_earlier_attempt_does_nothing():
    group = Script(2, restarts=1).running()
    failing_once(group)
    before = copy.deepcopy(group.life)
    assert group("swept", attempt=0) == []
    assert group.life == before


# -- illegal events


@pytest.mark.parametrize(
    ("script", "event"),
    [
        ([], ("ready", 0)),
        ([], ("exited", 0)),
        ([], ("stop sent", 0)),
        ([], ("swept",)),
        ([("spawned", 0)], ("spawned", 0)),
        ([("spawned", 0)], ("cancelled", 0)),
        ([("spawned", 0), ("ready", 0)], ("ready", 0)),
        ([("spawned", 0), ("ready", 0)], ("spawn failed", 0)),
        ([("spawned", 0), ("exited", 0)], ("exited", 0)),
        ([("spawned", 0), ("exited", 0)], ("reported", 0)),
        ([("spawned", 0), ("exited", 0)], ("spawned", 0)),
        ([("spawned", 0), ("exited", 0)], ("kill sent", 0)),
        ([("spawned", 0), ("exited", 0)], ("stop sent", 0)),
    ],
)
def test_illegal_events_raise_and_change_nothing(script, event):
    group = Script(2)
    for words in script:
        group(*words)
    before = copy.deepcopy(group.life)
    with pytest.raises(IllegalEvent):
        group(*event)
    assert group.life == before


def test_an_illegal_event_says_what_was_told_to_whom():
    group = Script(2)
    with pytest.raises(IllegalEvent) as raised:
        group("ready", 1)
    assert str(raised.value) == (
        "rank 1 is PENDING in a group that is STARTING (attempt 0): READY cannot happen"
    )
    with pytest.raises(IllegalEvent, match=r"^there is no rank 2$"):
        group("spawned", 2)


def test_a_group_of_ranks_is_plain_unless_it_is_said():
    life = Lifecycle(2)
    assert (life.restarts, life.patient, life.single) == (0, False, False)
