"""Ctrl-Z: the command and its ranks stop, and go on together."""

import os
import signal
import time

import pytest
from commandline import Watched

from support import until, write

COUNTS = """
    import os, sys, time
    import procession, signal
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked\\n"))
    number = 0
    print("ready", os.getpid(), flush=True)
    while not os.path.exists(sys.argv[1]):
        number += 1
        procession.beat()
        time.sleep(0.002)
    print("went", flush=True)
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


def suspend(it, ranks, seconds):
    it.signal(signal.SIGTSTP)
    until(lambda: it.process.poll() is not None or stopped(it.pid, *ranks), "all of them stopped")
    assert it.process.poll() is None, it.err
    time.sleep(seconds)
    assert stopped(it.pid, *ranks)
    it.signal(signal.SIGCONT)
    until(lambda: not any(state(pid) in "tT" for pid in (it.pid, *ranks)), "all of them run")


def test_ranks_stop_and_no_deadline_passes(counts):
    """The time-out of a hang is shorter than the ranks are stopped, and so is the grace period."""
    script, go = counts
    limits = "--hang-timeout", "2", "--shutdown-timeout", "2"  # nobody lacks a CPU for so long
    with Watched("run", "-n", 2, *limits, script, go) as it:
        it.shows(b"[0] ready", b"[1] ready")
        ranks = ranks_of(bytes(it.out))
        assert len(ranks) == 2
        suspend(it, ranks, 2.5)
        it.signal(signal.SIGTERM)
        it.shows(b"[0] asked", b"[1] asked")
        suspend(it, ranks, 2.5)
        go.touch()
        it.end()
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
