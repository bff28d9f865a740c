"""What is chosen to be ended, and what never."""

from seams.control import left_behind
from seams.system import ProcessInfo

ALIVE = {"1-1-1": False, "500-5-1": True, "9-9-2": None}


def process(pid, parent, mark=""):
    return ProcessInfo(pid, parent, pid, 1, env={"PROCESSION_LAUNCHER": mark} if mark else {})


def chosen(*processes, own=99):
    by_pid = {p.pid: p for p in processes}
    return [p.pid for p in left_behind(by_pid, ALIVE.get, own)]


def test_those_of_a_dead_launcher_and_what_is_below():
    assert chosen(process(10, 1, "1-1-1"), process(11, 10), process(12, 1)) == [10, 11]


def test_a_living_run_is_left_alone():
    assert not chosen(process(500, 1), process(10, 499, "500-5-1"), process(11, 10))


def test_what_is_not_known_counts_as_living():
    assert not chosen(process(10, 1, "9-9-2"))


def test_a_living_launcher_that_a_dead_one_started_is_left_alone():
    # 500 is a launcher that a rank of a dead run has detached: it and its agent have the mark.
    inherited = [process(500, 1, "1-1-1"), process(501, 500, "1-1-1")]
    ranks = [process(10, 501, "500-5-1"), process(11, 10)]
    assert not chosen(*inherited, *ranks)
    assert chosen(*inherited, *ranks, process(20, 1, "1-1-1")) == [20]


def test_who_asks_is_left_alone():
    shell, own = process(98, 1, "1-1-1"), process(99, 98, "1-1-1")
    assert not chosen(shell, own)
