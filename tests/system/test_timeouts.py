"""A time limit of ours, and one that the caller itself has set."""

import signal

import pytest

import procession
from support import QUICK


class Mine(TimeoutError):
    pass


def pause():
    while True:
        signal.pause()


@pytest.fixture
def limit():
    """Set a limit as `signal.alarm` does; its handler raises `Mine`."""

    def handler(*_):
        raise Mine("my limit")

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("timeout", [None, 1000.0])
def test_the_callers_own_timeout_error_comes_out_as_it_is(limit, timeout):
    limit()
    with pytest.raises(Mine, match="my limit"):
        procession.run(pause, nproc=2, stop=QUICK, timeout=timeout)


def test_ours_says_so():
    with pytest.raises(TimeoutError, match=r"pause was stopped: it had not ended after 0\.2 s"):
        procession.run(pause, nproc=1, stop=QUICK, timeout=0.2)
