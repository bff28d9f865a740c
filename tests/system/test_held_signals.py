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
import signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""
IGNORES = CATCHES.replace("lambda *_: sys.exit(7)", "signal.SIG_DFL")


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
def ranks():
    return Ranks(SimpleNamespace(), Exits(), lambda _: None)


@pytest.fixture
def process(request):
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE) as started:
        assert started.stdout.readline() == b"ready\n"
        pidfd = os.pidfd_open(started.pid)
        yield started, pidfd
        os.close(pidfd)
        started.kill()


@pytest.mark.parametrize("process", [CATCHES], indirect=True)
@pytest.mark.parametrize("only_caught", [True, False])
def test_it_comes_when_the_process_is_known(ranks, process, only_caught):
    started, pidfd = process
    forked_at = time.monotonic_ns()
    ranks.send_asked(0, signal.SIGUSR1, time.monotonic_ns(), only_caught=only_caught)
    ranks.spawned(0, started.pid, forked_at, pidfd)
    assert started.wait(30) == 7


@pytest.mark.parametrize("process", [IGNORES], indirect=True)
def test_not_if_it_has_no_handler_where_one_is_needed(ranks, process):
    started, pidfd = process
    forked_at = time.monotonic_ns()
    ranks.send_asked(0, signal.SIGUSR1, time.monotonic_ns(), only_caught=True)
    ranks.spawned(0, started.pid, forked_at, pidfd)
    ranks.send(0, signal.SIGTERM)
    assert started.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize("process", [CATCHES], indirect=True)
def test_not_if_it_began_later(ranks, process):
    started, pidfd = process
    ranks.send_asked(0, signal.SIGUSR1, time.monotonic_ns())
    ranks.spawned(0, started.pid, time.monotonic_ns(), pidfd)
    ranks.send(0, signal.SIGTERM)
    assert started.wait(30) == -signal.SIGTERM
