"""What signals mean for a run, also where they come in several places."""

import os
import signal
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2
from types import SimpleNamespace

import pytest

from seams.cli import RunSignals
from seams.rules import Phase
from seams.values import Record, Stop, make_spec

ENDING = (SIGHUP, SIGINT, SIGTERM)


class Job(Record):
    """Keeps what it is asked for."""

    asked: list
    spec = make_spec(["true"], nproc=2, stop=Stop(grace=30))
    state = Phase.STOPPING

    def stop(self, signal=None, grace=None, wait=True, notice=None, stacks=False):
        assert stacks
        assert not wait
        self.asked.append(f"stop by {signal}" if signal else "notice")

    def kill(self, wait=True):
        assert not wait
        self.asked.append("kill")

    def signal_all(self, number, *, only_caught=False):
        self.asked.append(f"{number} to {'those that catch it' if only_caught else 'all'}")


def nothing(line):
    pass


@pytest.fixture
def asked():
    return []


def of_slurm(monkeypatch, inside):
    """Have this process be in a job of Slurm, or not."""
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME"):
        if inside:
            monkeypatch.setenv(name, "1")
        else:
            monkeypatch.delenv(name, raising=False)


def wanted(notices=None, forward=()):
    return SimpleNamespace(signals=ENDING, notices=notices or {}, forward=forward)


def here(number):
    os.kill(os.getpid(), number)


STOP, NOTICE = f"stop by {int(SIGTERM)}", "notice"
CAUGHT = f"{int(SIGUSR1)} to those that catch it"
ALL = f"{int(SIGUSR2)} to all"


@pytest.mark.parametrize(
    ("signals", "expected", "in_job"),
    [
        # One event in several places is one; at a time limit, each node process gets it twice.
        (["TERM to a", "TERM", "TERM to b"], [STOP], False),
        (["TERM", "TERM to a", "TERM to b", "TERM to a", "TERM to b"], [STOP], False),
        # A second one to this process kills; Slurm may send it here twice.
        (["TERM", "TERM to a", "TERM"], [STOP, "kill"], False),
        (["TERM", "TERM"], [STOP], True),
        (["TERM", "TERM", "INT"], [STOP, "kill"], True),
        # An interrupt after what node processes got is the first one here.
        (["TERM to a", "INT"], [STOP], False),
        (["TERM to a", "INT", "INT"], [STOP, "kill"], False),
        # A notice is given once, and does not count as an end.
        (["USR1 to a", "USR1", "TERM"], [NOTICE, CAUGHT, STOP], False),
        # What is forwarded is so each time it happens.
        (["USR2 to a", "USR2 to b", "USR2 to a", "USR2 to b"], [ALL, ALL], False),
    ],
)
def test_what_is_asked_of_the_group(asked, signals, expected, in_job, monkeypatch):
    of_slurm(monkeypatch, in_job)
    made = RunSignals(Job(asked), wanted({SIGUSR1: 30.0}, [SIGUSR2]), nothing)
    with made.taken():
        for each in signals:
            name, _, node = each.partition(" to ")
            number = signal.Signals[f"SIG{name}"]
            if node:
                made.node_got(number, node)
            else:
                here(number)
    assert asked == expected


def test_what_is_ignored_stays_so(asked, monkeypatch):
    before = signal.signal(SIGHUP, signal.SIG_IGN)
    try:
        made = RunSignals(Job(asked), wanted(), nothing)
        with made.taken():
            here(SIGHUP)
            made.node_got(SIGHUP, "a")
        assert signal.getsignal(SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(SIGHUP, before)
    assert not asked


@pytest.mark.parametrize("repeated", [False, True])
def test_a_second_signal_that_is_a_notice_and_a_stop_comes_from_a_person(
    asked, repeated, monkeypatch
):
    """Kubernetes sends its SIGTERM once, to each machine of a job; Slurm sends it several times."""
    of_slurm(monkeypatch, repeated)
    made = RunSignals(Job(asked), wanted({SIGTERM: 30.0}), nothing)
    with made.taken():
        for who in "ab":
            made.node_got(SIGTERM, who)
        here(SIGTERM)
        assert asked == ["notice", f"{int(SIGTERM)} to those that catch it"]
        here(SIGTERM)
        made.node_got(SIGTERM, "a")
        assert asked[2:] == ([] if repeated else [STOP])
        here(SIGTERM)
        assert asked[2:] == ([] if repeated else [STOP, "kill"])
