"""What signals mean for a run, also where they come in several places."""

import os
import signal
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2

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

    def stop(self, signal=None, grace=None, wait=True, notice=None):
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


@pytest.fixture
def signals(asked, request):
    made = RunSignals(
        Job(asked),
        ENDING,
        {SIGUSR1: 30.0},
        [SIGUSR2],
        say=nothing,
        repeated=getattr(request, "param", False),
    )
    with made.taken():
        yield made


def here(number):
    os.kill(os.getpid(), number)


STOP = f"stop by {int(SIGTERM)}"
in_job = pytest.mark.parametrize("signals", [True], indirect=True)


def test_one_event_in_several_places_is_one(signals, asked):
    signals.agent_got(SIGTERM, "a")
    here(SIGTERM)
    signals.agent_got(SIGTERM, "b")
    assert asked == [STOP]
    assert signals.received == [SIGTERM]


def test_copies_that_come_after_our_own_are_nothing(signals, asked):
    here(SIGTERM)
    for who in "abab":  # at a time limit, each agent gets it twice
        signals.agent_got(SIGTERM, who)
    assert asked == [STOP]


def test_a_second_signal_to_this_process_kills(signals, asked):
    here(SIGTERM)
    signals.agent_got(SIGTERM, "a")
    here(SIGTERM)
    assert asked == [STOP, "kill"]


@in_job
def test_slurm_may_send_it_here_twice(signals, asked):
    here(SIGTERM)
    here(SIGTERM)
    assert asked == [STOP]
    here(SIGINT)
    assert asked == [STOP, "kill"]


def test_an_interrupt_after_what_agents_got_is_the_first_one_here(signals, asked):
    signals.agent_got(SIGTERM, "a")
    here(SIGINT)
    assert asked == [STOP]
    here(SIGINT)
    assert asked == [STOP, "kill"]


def test_a_notice_is_given_once_and_does_not_count_as_an_end(signals, asked):
    signals.agent_got(SIGUSR1, "a")
    here(SIGUSR1)
    assert asked == ["notice", f"{int(SIGUSR1)} to those that catch it"]
    here(SIGTERM)
    assert asked[2:] == [STOP]


def test_what_is_forwarded_is_so_each_time_it_happens(signals, asked):
    for _ in range(2):
        for who in "ab":
            signals.agent_got(SIGUSR2, who)
    assert asked == [f"{int(SIGUSR2)} to all"] * 2


def test_what_is_ignored_stays_so(asked, monkeypatch):
    before = signal.signal(SIGHUP, signal.SIG_IGN)
    try:
        made = RunSignals(Job(asked), ENDING, say=nothing)
        with made.taken():
            here(SIGHUP)
            made.agent_got(SIGHUP, "a")
        assert signal.getsignal(SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(SIGHUP, before)
    assert not asked


@pytest.mark.parametrize("repeated", [False, True])
def test_a_second_signal_that_is_a_notice_and_a_stop_comes_from_a_person(asked, repeated):
    """Kubernetes sends its SIGTERM once, to each machine of a job; Slurm sends it several times."""
    made = RunSignals(Job(asked), ENDING, {SIGTERM: 30.0}, say=nothing, repeated=repeated)
    with made.taken():
        for who in "ab":
            made.agent_got(SIGTERM, who)
        here(SIGTERM)
        assert asked == ["notice", f"{int(SIGTERM)} to those that catch it"]
        here(SIGTERM)
        made.agent_got(SIGTERM, "a")
        assert asked[2:] == ([] if repeated else [STOP])
        here(SIGTERM)
        assert asked[2:] == ([] if repeated else [STOP, "kill"])
