"""Something happens to the agent alone, at a time when nobody asks it for anything."""

import os
import signal
import subprocess
import time

import pytest

import procession
from chaos.processes import parent
from procession import GroupFailed
from support import OBEDIENT, gone, run_python, until, write


def ignore_and_fail(rank):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ["RANK"] == rank:
        raise ArithmeticError
    time.sleep(1000)


def test_one_that_is_stopped_in_the_grace_period_goes_on():
    """Its own clock stands still: the launcher looks after it while it is busy."""
    stop = procession.Stop(grace=3.0)
    group = procession.start(ignore_and_fail, args=("1",), nproc=2, stop=stop)
    agent, failed = parent(group.pids()[0]), group.pids()[1]
    gone([failed])
    os.kill(agent, signal.SIGSTOP)
    with pytest.raises(GroupFailed) as raised:
        group.wait(40)
    assert raised.value.cause.rank == 1


def test_one_that_is_stopped_passes_on_a_signal():
    with procession.start(["sleep", "1000"], nproc=2, stop=OBEDIENT) as group:
        os.kill(parent(group.pids()[0]), signal.SIGSTOP)
        group.send_signal(1, signal.SIGUSR1)
        with pytest.raises(GroupFailed) as failed:
            group.wait(40)
    assert failed.value.cause.exit.signal == signal.SIGUSR1


def with_another_environment(place):
    child = subprocess.Popen(["sleep", "1000"], env={})
    with open(f"{place}/pid.new", "w") as f:
        f.write(str(child.pid))
    os.rename(f"{place}/pid.new", f"{place}/pid")
    time.sleep(1000)


def test_the_session_of_a_rank_is_ended_whatever_it_carries(tmp_path):
    """It is found by its session when the agent is lost, if it has no mark."""
    group = procession.start(with_another_environment, args=(str(tmp_path),), stop=OBEDIENT)
    until((tmp_path / "pid").exists, "the child")
    os.kill(parent(group.pids()[0]), signal.SIGKILL)
    with pytest.raises(GroupFailed):
        group.wait(20)
    gone([int((tmp_path / "pid").read_text())])


def test_a_value_for_which_the_launcher_has_no_descriptor_is_not_taken_for_none(tmp_path):
    program = """
        import os, resource, sys, time, procession

        def large(place):
            while not os.path.exists(place):
                time.sleep(0.01)
            return b"x" * 1_000_000

        group = procession.start(large, args=(sys.argv[1],))
        group.wait_started()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 4096))
        os.mkfifo(sys.argv[1])
        try:
            print(group.wait(20))
        except procession.ProcessionError as e:
            print(e)
    """
    done = run_python(write(tmp_path / "main.py", program), str(tmp_path / "go"))
    assert "the value of rank 0 is lost: there was no descriptor left" in done.stdout
