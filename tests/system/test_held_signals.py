"""A signal to a rank of which the forkserver has not told yet."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from seams.explain import RankRecord
from seams.supervise import Ranks, Sources

CATCHES = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
print("ready", flush=True)
while True:
    time.sleep(0.02)
"""


class Exits:
    """One rank that was asked for, and has no process that is known."""

    def __init__(self):
        self.records, self.sources = [RankRecord(0)], [Sources(asked=True)]
        self.exited = self.begin = self.close = self.let_exit = None

    def lives(self, rank):
        return True

    def watch(self, rank, pidfd):
        self.sources[rank].pidfd = pidfd


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", CATCHES], stdout=subprocess.PIPE) as started:
        assert started.stdout.readline() == b"ready\n"
        pidfd = os.pidfd_open(started.pid)
        yield started, pidfd
        os.close(pidfd)
        started.kill()


@pytest.mark.parametrize("began", ["before", "after"])
def test_it_comes_to_a_process_that_had_begun_by_then(process, began):
    started, pidfd = process
    ranks = Ranks(SimpleNamespace(), Exits(), lambda _: None)
    forked_at = time.monotonic_ns()
    ranks.send_asked(0, signal.SIGUSR1, time.monotonic_ns(), only_caught=True)
    if began == "after":
        forked_at = time.monotonic_ns()
    ranks.spawned(0, started.pid, forked_at, pidfd)
    if began == "after":
        ranks.send(0, signal.SIGTERM)
    assert started.wait(30) == (7 if began == "before" else -signal.SIGTERM)
