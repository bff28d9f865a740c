"""One failure ends the group, at once, with all that its ranks started; so does a request."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from rankwork import whoami

import procession
from procession import GroupFailed, Phase, Stop
from support import OBEDIENT, alive, failure_of, shell, until

GRACELESS = Stop(grace=0.1, linger=0.1)


def pause():
    while True:
        signal.pause()


def endings(group):
    """Wait for a group that was stopped; gives how its ranks ended, by rank."""
    result = group.wait(20)
    assert result.state is Phase.STOPPED
    return result.ranks


# -- the first failure


def test_a_failure_is_noticed_in_milliseconds():
    """From the end of the rank to the end of the other one, ten times, the best of them."""

    def work():
        import os
        import signal

        if os.environ["RANK"] == "0":
            os._exit(1)
        while True:
            signal.pause()

    best = 1e9
    for _ in range(10):
        failed = failure_of(work, nproc=2, stop=OBEDIENT)
        best = min(best, failed.ended[0].happened_at - failed.cause.happened_at)
    assert best < 20e6


@pytest.mark.parametrize("how", ["raise", "exit", "signal"])
def test_what_the_group_ended_is_never_a_cause(how):
    """Ranks that fail in answer to the stop signal are not failures of their own."""

    def work(how):
        import os
        import signal
        import sys

        def refuse(*_):
            if how == "raise":
                raise RuntimeError("in answer")
            if how == "exit":
                sys.exit(5)
            os.kill(os.getpid(), signal.SIGABRT)

        signal.signal(signal.SIGTERM, refuse)
        if os.environ["RANK"] == "2":
            raise ValueError("the cause")
        while True:  # a signal right before `signal.pause()` would wake nobody
            time.sleep(0.02)

    failed = failure_of(work, args=(how,), nproc=4, stop=OBEDIENT)
    assert [f.rank for f in failed.failures] == [2]
    assert isinstance(failed.__cause__, ValueError)
    assert len(failed.ended) == 3


# -- stop and kill


@pytest.mark.parametrize(
    ("policy", "call"),
    [(Stop(signal=signal.SIGUSR1, grace=20), {}), (Stop(), {"signal": signal.SIGUSR1})],
)
def test_choice_of_the_stop_signal(policy, call, tmp_path):
    program = shell(
        f"trap 'exit 7' USR1; touch {tmp_path}/ready$RANK; while :; do sleep 0.01; done"
    )
    group = procession.start(program, nproc=2, stop=policy)
    until(lambda: len(list(tmp_path.glob("ready*"))) == 2)
    group.stop(**call)
    assert [end.exit.code for end in group.wait(20).ranks] == [7, 7]


def test_a_stopped_rank_is_ended(tmp_path):
    """A rank under SIGSTOP cannot obey: it is let go on for that."""
    group = procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT)
    os.kill(group.pids()[0], signal.SIGSTOP)
    group.stop()
    assert [e.exit.signal for e in endings(group)] == [signal.SIGTERM] * 2


def test_stop_from_another_thread_and_many_at_once():
    group = procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT)
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda end: end(), [group.stop] * 8 + [group.kill] * 2))
    endings(group)


def test_leaving_the_block_stops_the_group():
    with procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT) as group:
        pids = group.pids()
    assert not any(alive(p) for p in pids.values())
    assert group.state is Phase.STOPPED


def test_a_failure_in_the_block_is_not_raised_by_leaving_it():
    with procession.start(["false"]) as group:
        until(lambda: group.state.final)
    assert group.state is Phase.FAILED


# -- whole trees


def test_a_rank_that_forks_without_end_is_ended(tmp_path):
    """Each process forks the next and dies: whoever looks once misses some."""

    def work(place):
        import os
        import time

        for _ in range(3):
            if not os.fork():
                while True:
                    if os.fork():
                        os._exit(0)
                    time.sleep(0.001)
        with open(place, "w"):
            pass
        time.sleep(100)

    for _ in range(3):
        place = tmp_path / "ready"
        group = procession.start(work, args=(str(place),), stop=GRACELESS)
        until(place.exists)
        group.stop()
        endings(group)
        place.unlink()
    # that nothing is left, the fixture tells


# -- ranks that do not go


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_who_has_told_its_end_gets_no_signal_within_the_grace_period(tmp_path, how):
    def work(place, how):
        import atexit
        import os
        import signal
        import sys
        import time

        def last():
            time.sleep(1.5)  # longer than any moment that one might have thought enough
            with open(place, "w") as f:
                f.write("whole")

        if os.environ["RANK"] == "1":
            signal.signal(signal.SIGTERM, lambda *_: os._exit(99))
            atexit.register(last)
            if how == "exit":
                sys.exit(3)
            raise ValueError
        while True:
            signal.pause()

    failed = failure_of(work, args=(str(tmp_path / "f"), how), nproc=2)
    assert (tmp_path / "f").read_text() == "whole"
    assert failed.exit_code == (3 if how == "exit" else 1)
    assert failed.cause.sent == ()
    assert failed.ended[0].sent == (signal.SIGTERM,)


# -- several groups


def test_groups_at_the_same_time_in_threads():
    outcomes = {}

    def good(n):
        outcomes[n] = procession.run(whoami, nproc=3)

    def bad(n):
        with pytest.raises(GroupFailed) as caught:
            procession.run(shell(f"[ $RANK = 1 ] && exit {n}; exec sleep 100"), nproc=3)
        outcomes[n] = caught.value.cause.exit.code

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda n: (bad if n % 2 else good)(n), range(1, 13)))
    assert outcomes == {n: n if n % 2 else [0, 1, 2] for n in range(1, 13)}


@pytest.mark.parametrize(
    "wrong",
    [{"signal": "TERM"}, {"signal": 9999}, {"signal": 0}, {"grace": "x"}, {"grace": -1},
     {"grace": float("nan")}],
)  # fmt: skip
def test_wrong_arguments_of_stop(wrong):
    with procession.start(["sleep", "100"], nproc=1) as group:
        with pytest.raises(procession.SpecError):
            group.stop(**wrong)
        assert group.state is Phase.RUNNING
