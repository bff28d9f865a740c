"""One failure ends the group, at once, with all that its ranks started; so does a request."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from rankwork import whoami

import procession
from procession import GroupFailed, Outcome, Phase, Stop
from support import OBEDIENT, QUICK, alive, failure_of, gone, reader_of, shell, until, write

METHODS = ("forkserver", "spawn", "fork")
GRACELESS = Stop(grace=0.1, linger=0.1)


def pause():
    while True:
        signal.pause()


def endings_any(group):
    return group.wait(20).ranks


def endings(group):
    """Wait for a group that was stopped; gives how its ranks ended, by rank."""
    result = group.wait(20)
    assert result.state is Phase.STOPPED
    return result.ranks


# -- the first failure


@pytest.mark.parametrize("method", METHODS)
def test_failure_ends_the_group_while_nobody_waits(method, tmp_path):
    def work(go):
        import os
        import signal
        import sys
        import time

        if os.environ["RANK"] == "1":
            while not os.path.exists(go):
                time.sleep(0.001)
            sys.exit(3)
        while True:
            signal.pause()

    go = tmp_path / "go"
    group = procession.start(work, args=(str(go),), nproc=4, start_method=method, stop=OBEDIENT)
    pids = group.pids()
    assert len(pids) == 4
    assert all(alive(p) for p in pids.values())
    go.touch()
    gone(pids.values())
    until(lambda: group.state.final, "the end of the group")
    with pytest.raises(GroupFailed) as caught:
        group.wait()
    assert caught.value.cause.rank == 1
    assert caught.value.cause.exit.code == 3
    assert {e.rank for e in caught.value.ended} == {0, 2, 3}


def test_failure_of_a_command_ends_the_group_while_nobody_waits(tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    program = shell(f"if [ $RANK = 2 ]; then read x < {go}; exit 7; fi; exec sleep 100")
    group = procession.start(program, nproc=3, stop=OBEDIENT)
    go.write_text("\n")
    gone(group.pids().values())
    with pytest.raises(GroupFailed) as caught:
        group.wait()
    assert (caught.value.cause.rank, caught.value.exit_code) == (2, 7)
    assert all(e.exit.signal == signal.SIGTERM for e in caught.value.ended)


def test_ranks_that_finished_are_told_from_those_that_were_ended(tmp_path):
    go = tmp_path / "go"
    program = shell(
        "[ $RANK = 0 ] && exit 0; "
        f"while [ $RANK = 1 ]; do [ -e {go} ] && exit 9; sleep 0.01; done; exec sleep 100"
    )
    group = procession.start(program, nproc=3, stop=OBEDIENT)
    next(e for e in group if e.kind == "exited" and e.rank == 0)
    go.touch()
    with pytest.raises(GroupFailed) as caught:
        group.wait(20)
    assert [e.rank for e in caught.value.finished] == [0]
    assert [e.rank for e in caught.value.failures] == [1]
    assert [e.rank for e in caught.value.ended] == [2]


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
        while True:
            while True:
                signal.pause()

    failed = failure_of(work, args=(how,), nproc=4, stop=OBEDIENT)
    assert [f.rank for f in failed.failures] == [2]
    assert isinstance(failed.__cause__, ValueError)
    assert len(failed.ended) == 3


# -- stop and kill


@pytest.mark.parametrize("method", METHODS)
def test_stop(method):
    group = procession.start(pause, nproc=3, start_method=method, stop=OBEDIENT)
    assert group.state is Phase.RUNNING
    group.stop()
    assert group.state is Phase.STOPPED
    assert not any(alive(p) for p in group.pids().values())
    assert [e.exit.signal for e in endings(group)] == [signal.SIGTERM] * 3
    group.stop()  # once more does nothing
    assert group.wait().values == [None] * 3


def test_kill():
    group = procession.start(pause, nproc=3)
    group.kill()
    assert [e.exit.signal for e in endings(group)] == [signal.SIGKILL] * 3


def test_kill_after_stop(tmp_path):
    program = shell(f"trap '' TERM; touch {tmp_path}/$RANK; while :; do sleep 0.02; done")
    group = procession.start(program, nproc=2, stop=Stop(grace=1000))
    until(lambda: len(list(tmp_path.iterdir())) == 2, "ranks that ignore the stop signal")
    group.stop(wait=False)
    until(lambda: group.state is Phase.STOPPING, "stopping")
    group.kill()
    assert len(endings(group)) == 2


def stubborn(place):
    import signal

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(place, "w") as f:
        f.write(f"{signal.SIGTERM}\n")
    while True:
        while True:
            signal.pause()


@pytest.mark.parametrize("method", METHODS)
def test_function_that_ignores_the_stop_signal_is_killed(method, tmp_path):
    args = {r: (str(tmp_path / str(r)),) for r in range(2)}
    group = procession.start(stubborn, args=args, nproc=2, start_method=method, stop=GRACELESS)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    before = time.monotonic()
    group.stop()
    assert 0.05 < time.monotonic() - before < 5
    assert [e.exit.signal for e in endings(group)] == [signal.SIGKILL] * 2


def test_command_that_ignores_the_stop_signal_is_killed(tmp_path):
    program = shell(f"trap '' TERM; touch {tmp_path}/$RANK; while :; do sleep 0.02; done")
    group = procession.start(program, nproc=2, stop=GRACELESS)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    group.stop()
    assert [e.exit.signal for e in endings(group)] == [signal.SIGKILL] * 2


def test_one_that_obeys_beside_one_that_does_not(tmp_path):
    program = shell(
        f"[ $RANK = 1 ] && trap '' TERM; touch {tmp_path}/$RANK; while :; do sleep 0.02; done"
    )
    group = procession.start(program, nproc=2, stop=GRACELESS)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    group.stop()
    assert [e.exit.signal for e in endings(group)] == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGQUIT])
def test_choice_of_the_stop_signal(number, tmp_path):
    name = number.name.removeprefix("SIG")
    program = shell(
        f"trap 'echo {name} > {tmp_path}/$RANK; exit 0' {name}; "
        f"touch {tmp_path}/ready$RANK; while :; do sleep 0.01; done"
    )
    for choose in ("policy", "call"):
        stop = Stop(signal=number, grace=20) if choose == "policy" else OBEDIENT
        group = procession.start(program, nproc=2, stop=stop)
        until(lambda: len(list(tmp_path.glob("ready*"))) == 2)
        group.stop(signal=None if choose == "policy" else number)
        for rank in (0, 1):
            assert (tmp_path / str(rank)).read_text() == f"{name}\n"
        for file in tmp_path.iterdir():
            file.unlink()
        endings_any(group)


def test_grace_of_the_call_wins(tmp_path):
    program = shell(f"trap '' TERM; touch {tmp_path}/$RANK; while :; do sleep 0.02; done")
    group = procession.start(program, nproc=1, stop=Stop(grace=1000))
    until(lambda: list(tmp_path.iterdir()))
    group.stop(grace=0.05)
    assert [e.exit.signal for e in endings(group)] == [signal.SIGKILL]


@pytest.mark.parametrize("method", METHODS)
def test_grace_of_zero(method, tmp_path):
    args = (str(tmp_path / "ready"),)
    group = procession.start(stubborn, args=args, start_method=method, stop=Stop(grace=0))
    until(lambda: list(tmp_path.iterdir()))
    group.stop()
    assert [e.exit.signal for e in endings(group)] == [signal.SIGKILL]


def test_a_stop_lets_ranks_clean_up(tmp_path):
    def work(place):
        import os
        import signal
        import sys
        import time

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            with open(f"{place}/ready{os.environ['RANK']}", "w"):
                pass
            while True:
                while True:
                    signal.pause()
        finally:
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                pass
            with open(f"{place}/clean{os.environ['RANK']}", "w"):
                pass

    group = procession.start(work, args=(str(tmp_path),), nproc=2, stop=OBEDIENT)
    until(lambda: len(list(tmp_path.glob("ready*"))) == 2)
    group.stop()
    assert len(list(tmp_path.glob("clean*"))) == 2
    endings(group)


def test_a_stopped_rank_is_ended(tmp_path):
    """A rank under SIGSTOP cannot obey: it is let go on for that."""
    group = procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT)
    os.kill(group.pids()[0], signal.SIGSTOP)
    group.stop()
    assert [e.exit.signal for e in endings(group)] == [signal.SIGTERM] * 2


def test_a_stopped_rank_is_ended_when_another_fails(tmp_path):
    go = tmp_path / "go"
    program = shell(f"[ $RANK = 0 ] && exec sleep 100; while [ ! -e {go} ]; do :; done; exit 4")
    group = procession.start(program, nproc=2, stop=OBEDIENT)
    os.kill(group.pids()[0], signal.SIGSTOP)
    go.touch()
    with pytest.raises(GroupFailed) as caught:
        group.wait(20)
    assert caught.value.cause.rank == 1
    assert [e.exit.signal for e in caught.value.ended] == [signal.SIGTERM]


def test_stop_from_another_thread_and_many_at_once():
    group = procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT)
    threads = [threading.Thread(target=group.stop) for _ in range(8)]
    threads += [threading.Thread(target=group.kill) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    endings(group)


def test_stop_of_a_group_that_has_ended():
    group = procession.start(["true"])
    group.wait()
    group.stop()
    group.kill()
    assert group.wait().state is Phase.SUCCEEDED


def test_leaving_the_block_stops_the_group():
    with procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT) as group:
        pids = group.pids()
    assert not any(alive(p) for p in pids.values())
    assert group.state is Phase.STOPPED


def test_an_exception_in_the_block_stops_the_group_and_goes_on():
    with (
        pytest.raises(KeyError, match="mine"),
        procession.start(["sleep", "100"], stop=OBEDIENT) as group,
    ):
        raise KeyError("mine")
    assert group.state is Phase.STOPPED


def test_a_failure_in_the_block_is_not_raised_by_leaving_it():
    with procession.start(["false"]) as group:
        until(lambda: group.state.final)
    assert group.state is Phase.FAILED


def test_a_hundred_ranks_are_stopped_together():
    with procession.start(["sleep", "100"], nproc=100, stop=OBEDIENT) as group:
        pids = group.pids()
        assert len(pids) == 100
        before = time.monotonic()
        group.stop()
        assert time.monotonic() - before < 5
    gone(pids.values())


# -- whole trees

STUBBORN = """
trap "" TERM HUP
echo $$ >> "$1"
while :; do sleep 0.05; done
"""


def tree(tmp_path, then, **options):
    """Start a group whose rank 0 has a tree below it; gives the group and the tree's pids."""
    file = tmp_path / "pids"
    stubborn = f"sh {write(tmp_path / 'stubborn.sh', STUBBORN)} {file}"
    program = shell(
        f"if [ $RANK = 0 ]; then echo $$ >> {file}; {stubborn} & "
        f"setsid sh -c 'echo $$ >> {file}; exec sleep 100' & "
        f"(setsid {stubborn} &); fi; {then}"
    )
    group = procession.start(program, nproc=2, stop=GRACELESS, **options)
    pids = until(
        lambda: (found := reader_of(file)()) and len(found) >= 4 and found, "the tree of processes"
    )
    assert all(alive(p) for p in pids)
    return group, pids


def test_stop_ends_the_whole_tree_of_a_command(tmp_path):
    group, pids = tree(tmp_path, "exec sleep 100")
    group.stop()
    assert not any(alive(p) for p in pids)
    endings(group)


def test_kill_ends_the_whole_tree_of_a_command(tmp_path):
    group, pids = tree(tmp_path, "exec sleep 100")
    group.kill()
    assert not any(alive(p) for p in pids)
    endings(group)


def test_failure_ends_the_whole_tree_of_a_command(tmp_path):
    group, pids = tree(
        tmp_path,
        f"if [ $RANK = 1 ]; then while [ ! -e {tmp_path}/go ]; do :; done; exit 3; fi; "
        "exec sleep 100",
    )
    (tmp_path / "go").touch()
    with pytest.raises(GroupFailed) as caught:
        group.wait(20)
    assert not any(alive(p) for p in pids)
    assert caught.value.cause.rank == 1


def test_success_ends_what_the_ranks_left(tmp_path):
    group, pids = tree(tmp_path, f"while [ ! -e {tmp_path}/go ]; do :; done; exit 0")
    (tmp_path / "go").touch()
    assert group.wait(20).state is Phase.SUCCEEDED
    assert not any(alive(p) for p in pids)


def family(place):
    """Have a child that ignores SIGTERM, a daemon in a session of its own, and a daemon's child."""
    import os
    import signal
    import time

    def note():
        with open(place, "a") as f:
            f.write(f"{os.getpid()}\n")

    def child():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note()
        while True:
            time.sleep(10)

    if not os.fork():
        child()
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        if not os.fork():
            child()
        child()
    note()
    while not os.path.exists(place + ".go"):
        time.sleep(0.002)


@pytest.mark.parametrize("end", ["stop", "kill", "failure", "success"])
@pytest.mark.parametrize("method", METHODS)
def test_whole_tree_of_a_function(method, end, tmp_path):
    def work(place, end):
        import sys

        family(place)
        if end == "failure":
            sys.exit(3)
        return "value"

    file = tmp_path / "pids"
    options = {"start_method": method, "stop": GRACELESS}
    group = procession.start(work, args=(str(file), end), nproc=1, **options)
    pids = until(lambda: (p := reader_of(file)()) and len(p) == 4 and p, "the family")
    if end in ("stop", "kill"):
        getattr(group, end)()
        endings(group)
    else:
        (tmp_path / "pids.go").touch()
        if end == "success":
            assert group.wait(20).values == ["value"]
        else:
            with pytest.raises(GroupFailed):
                group.wait(20)
    assert not any(alive(p) for p in pids)


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


def test_children_of_a_killed_rank_are_ended(tmp_path):
    file = tmp_path / "pids"
    program = shell(f"setsid sleep 100 & echo $! >> {file}; echo $$ >> {file}; wait")
    group = procession.start(program, stop=GRACELESS)
    pids = until(lambda: (p := reader_of(file)()) and len(p) == 2 and p)
    os.kill(group.pids()[0], signal.SIGKILL)
    with pytest.raises(GroupFailed) as caught:
        group.wait(20)
    assert caught.value.cause.outcome is Outcome.SIGNALLED
    assert not any(alive(p) for p in pids)


# -- ranks that do not go


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_stuck_exit_handler_after_an_exception_is_bounded(method):
    def work():
        import atexit
        import os
        import signal
        import time

        if os.environ["RANK"] == "0":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            atexit.register(time.sleep, 1000)
            raise ValueError("then stuck")
        while True:
            signal.pause()

    before = time.monotonic()
    failed = failure_of(work, nproc=2, start_method=method, stop=QUICK)
    assert time.monotonic() - before < 5
    assert isinstance(failed.__cause__, ValueError)
    assert failed.cause.rank == 0
    assert failed.cause.exit.signal == signal.SIGKILL
    assert failed.cause.outcome is Outcome.RAISED
    assert [e.rank for e in failed.ended] == [1]


def test_others_are_ended_at_once_while_one_is_stuck_in_its_exit(tmp_path):
    def work(go):
        import atexit
        import os
        import signal
        import time

        if os.environ["RANK"] == "0":
            while not os.path.exists(go):
                time.sleep(0.001)
            atexit.register(time.sleep, 1000)
            raise ValueError
        while True:
            signal.pause()

    go = tmp_path / "go"
    group = procession.start(work, args=(str(go),), nproc=2, stop=Stop(grace=1000, linger=1000))
    other = group.pids()[1]
    go.touch()
    gone([other])  # long before linger
    group.kill()
    with pytest.raises(GroupFailed):
        group.wait(20)


def test_linger_lets_a_rank_end_by_itself(tmp_path):
    def work(place):
        import atexit
        import os
        import signal
        import time

        def last():
            time.sleep(0.1)
            with open(place, "w") as f:
                f.write("whole")

        if os.environ["RANK"] == "0":
            atexit.register(last)
            raise ValueError
        while True:
            signal.pause()

    failed = failure_of(work, args=(str(tmp_path / "f"),), nproc=2, stop=Stop(linger=15, grace=20))
    assert (tmp_path / "f").read_text() == "whole"
    assert failed.exit_code == 1


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

        if os.environ["RANK"] == "0":
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


def test_an_end_that_hangs_is_bounded_by_the_grace_period():
    def work():
        import atexit
        import os
        import signal
        import sys

        if os.environ["RANK"] == "0":
            atexit.register(signal.pause)
            sys.exit(3)
        while True:
            signal.pause()

    stop = Stop(grace=1.0, reap=5.0)
    before = time.monotonic()
    failed = failure_of(work, nproc=2, stop=stop)
    assert stop.grace < time.monotonic() - before < stop.grace + stop.reap
    assert (failed.cause.announced, failed.cause.sent) == (3, (signal.SIGKILL,))
    assert failed.exit_code == 3


def test_a_non_daemon_thread_after_an_exception_is_bounded():
    def work():
        import threading
        import time

        threading.Thread(target=time.sleep, args=(1000,)).start()
        raise ValueError("with a thread")

    before = time.monotonic()
    failed = failure_of(work, nproc=2, stop=QUICK)
    assert time.monotonic() - before < 5
    assert failed.cause.outcome is Outcome.RAISED


# -- several groups


def test_groups_at_the_same_time_in_threads():
    outcomes = {}

    def good(n):
        outcomes[n] = procession.run(whoami, nproc=3)

    def bad(n):
        with pytest.raises(GroupFailed) as caught:
            procession.run(shell(f"[ $RANK = 1 ] && exit {n}; exec sleep 100"), nproc=3)
        outcomes[n] = caught.value.cause.exit.code

    threads = [threading.Thread(target=bad if n % 2 else good, args=(n,)) for n in range(1, 13)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert outcomes == {n: n if n % 2 else [0, 1, 2] for n in range(1, 13)}


def test_the_end_of_one_group_does_not_touch_another():
    with procession.start(["sleep", "100"], nproc=2, stop=OBEDIENT) as stays:
        for _ in range(5):
            failure_of(["false"], nproc=2)
        with procession.start(["sleep", "100"], stop=OBEDIENT):
            pass
        assert stays.state is Phase.RUNNING
        assert all(alive(p) for p in stays.pids().values())


def test_many_groups_at_once_in_asyncio():
    async def main():
        groups = [procession.start(whoami, nproc=2) for _ in range(8)]
        return await asyncio.gather(*(wait_for(g) for g in groups))

    async def wait_for(group):
        return (await group).values

    assert asyncio.run(main()) == [[0, 1]] * 8


# -- a stop while the group is being ended


def failing_and_stubborn(ready):
    import os
    import signal
    import time

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ["RANK"] == "1":
        while not os.path.exists(ready):
            time.sleep(0.001)
        raise ValueError
    open(ready, "w").close()
    while True:
        while True:
            signal.pause()


def failing_slowly(tmp_path):
    """Give a group that has failed, and one of whose ranks does not obey for a long time."""
    ready = tmp_path / "ready"
    group = procession.start(
        failing_and_stubborn, args=(str(ready),), nproc=2, stop=Stop(grace=1000, linger=0)
    )
    until(lambda: any(e.kind == "stop_sent" and e.rank == 0 for e in events_of(group)), "a stop")
    assert group.state is Phase.STOPPING
    return group


def events_of(group):
    return list(group._supervisor.journal.events)


def test_a_shorter_grace_shortens_the_end_of_a_failed_group(tmp_path):
    group = failing_slowly(tmp_path)
    group.stop(grace=0.2)
    with pytest.raises(GroupFailed) as caught:
        group.wait(0)
    assert caught.value.cause.rank == 1
    assert caught.value.ended[0].exit.signal == signal.SIGKILL


def test_a_longer_grace_does_not_lengthen_it(tmp_path):
    ready = tmp_path / "ready"
    quick = Stop(grace=0.5, linger=0)
    group = procession.start(failing_and_stubborn, args=(str(ready),), nproc=2, stop=quick)
    until(lambda: any(e.kind == "stop_sent" and e.rank == 0 for e in events_of(group)), "a stop")
    group.stop(grace=1000)
    with pytest.raises(GroupFailed) as caught:
        group.wait(20)
    assert caught.value.ended[0].exit.signal == signal.SIGKILL


def test_another_signal_is_sent_besides(tmp_path):
    group = failing_slowly(tmp_path)
    group.stop(signal=signal.SIGUSR1)
    with pytest.raises(GroupFailed) as caught:
        group.wait(0)
    assert caught.value.ended[0].exit.signal == signal.SIGUSR1


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


def test_state_after_a_defect_of_our_own(monkeypatch):
    group = procession.start(["sleep", "100"], nproc=1)

    def broken(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr(group._supervisor, "_handle", broken)
    group.stop(wait=False)
    with pytest.raises(procession.ProcessionError):
        group.wait(20)
    assert group.state is Phase.FAILED


def test_three_quick_interrupts_show_one_traceback(tmp_path):
    script = write(
        tmp_path / "main.py",
        """
        import os, signal, sys, time
        import procession

        def stubborn(place):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(os.path.join(place, os.environ["RANK"]), "w").close()
            time.sleep(100)

        group = procession.start(stubborn, args=(sys.argv[1],), nproc=2)
        while len([n for n in os.listdir(sys.argv[1]) if n in "01"]) < 2:
            time.sleep(0.01)

        def press(*_):
            if not group.state.final:  # what comes later finds nobody who waits for the group
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, press)
        try:
            with group:
                print("ready", flush=True)
                group.wait()
        finally:
            print(group.state.name, flush=True)
        """,
    )
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.03)  # as quick as a hand; how many are heard does not matter
        out, err = process.communicate(timeout=30)
    assert out == "STOPPED\n"
    assert err.count("Traceback") == 1, err
    assert "During handling" not in err
