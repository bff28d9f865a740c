"""Ctrl-Z: the command and its ranks stop, and go on together."""

import os
import signal
import subprocess

import pytest
from commandline import Watched

from support import until, write

COUNTS = """
    import os, sys, time
    import procession
    number = 0
    print("ready", os.getpid(), flush=True)
    while not os.path.exists(sys.argv[1]):
        number += 1
        procession.beat()
        time.sleep(0.002)
    print("went", flush=True)
"""

OBEYS = """
    import os, signal, sys, time
    def end(*_):
        print("asked", flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        print("went", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def stopped(*pids):
    return all(state(pid) in "tT" for pid in pids)


@pytest.fixture
def counts(tmp_path):
    return write(tmp_path / "counts.py", COUNTS), tmp_path / "go"


def ranks_of(text):
    return [int(line.split()[2]) for line in text.decode().splitlines() if "] ready " in line]


def test_ranks_stop_and_no_deadline_passes(counts):
    """The time-out of a hang is shorter than the ranks are stopped."""
    script, go = counts
    with Watched("run", "-n", 2, "--hang-timeout", "0.5", script, go) as it:
        it.shows(b"[0] ready", b"[1] ready")
        ranks = ranks_of(bytes(it.out))
        assert len(ranks) == 2
        it.signal(signal.SIGTSTP)
        until(lambda: stopped(it.pid, *ranks), "all of them stopped")
        with pytest.raises(subprocess.TimeoutExpired):  # for longer than a hang may take
            it.process.wait(1.0)
        assert stopped(it.pid, *ranks)
        it.signal(signal.SIGCONT)
        until(lambda: not any(state(pid) in "tT" for pid in (it.pid, *ranks)), "all of them run")
        go.touch()
        assert it.end() == 0, bytes(it.err)
        assert it.out.count(b"went") == 2


def test_a_launcher_that_is_killed_while_it_is_stopped_leaves_nothing(counts):
    script, go = counts
    with Watched("run", "-n", 2, script, go) as it:
        it.shows(b"[0] ready", b"[1] ready")
        ranks = ranks_of(bytes(it.out))
        it.signal(signal.SIGTSTP)
        until(lambda: stopped(it.pid, *ranks), "all of them stopped")
        it.signal(signal.SIGKILL)
        assert it.end() == -signal.SIGKILL
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks), "their end")


def test_ranks_that_are_being_ended_keep_what_is_left_of_their_grace_period(tmp_path):
    script, go = write(tmp_path / "obeys.py", OBEYS), tmp_path / "go"
    with Watched("run", "-n", 1, "--shutdown-timeout", "2", script, go) as it:
        it.shows(b"ready")
        it.signal(signal.SIGTERM)
        it.shows(b"asked")
        it.signal(signal.SIGTSTP)
        until(lambda: stopped(it.pid), "the stop")
        with pytest.raises(subprocess.TimeoutExpired):
            it.process.wait(2.5)
        go.touch()
        it.signal(signal.SIGCONT)
        it.end()
        assert b"went" in it.out
