import os
import signal
import sys

import pytest
from rankwork import OnlyThere, Refuses

import procession
from procession import Outcome, ProcessionError
from support import failure_of, run_python, write

METHODS = ("forkserver", "spawn", "fork")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 1 << 20, 100_000_000])
def test_values_of_any_size(size, method):
    if size == 100_000_000 and method == "spawn":
        pytest.skip("as with forkserver")
    (value,) = procession.run(lambda n: b"x" * n, args=(size,), start_method=method)
    assert value == b"x" * size


@pytest.mark.parametrize("method", METHODS)
def test_none_and_by_rank(method):
    assert procession.run(lambda: None, nproc=2, start_method=method) == [None, None]

    def size():
        return bytes([int(os.environ["RANK"])]) * (3_000_000 * int(os.environ["RANK"]))

    values = procession.run(size, nproc=4, start_method=method)
    assert values == [bytes([r]) * (3_000_000 * r) for r in range(4)]


def test_a_value_arrives_while_another_rank_is_stuck_in_its_exit():
    def work():
        import atexit
        import time

        if os.environ["RANK"] == "0":
            atexit.register(time.sleep, 0.3)
        return os.environ["RANK"]

    assert procession.run(work, nproc=2) == ["0", "1"]


@pytest.mark.parametrize("method", METHODS)
def test_classes_of_main_come_back_as_themselves(tmp_path, method):
    main = write(
        tmp_path / "main.py",
        f"""
        import dataclasses, enum, procession

        @dataclasses.dataclass
        class Point:
            x: int

        class Colour(enum.Enum):
            RED = 1

        class Broken(Exception):
            pass

        def work():
            return Point(3), Colour.RED

        def fail():
            raise Broken("of main")

        ((point, colour),) = procession.run(work, start_method={method!r})
        print(type(point) is Point, point, colour is Colour.RED)
        try:
            procession.run(fail, start_method={method!r})
        except procession.GroupFailed as e:
            print(type(e.__cause__) is Broken, e.cause.type_name)
        """,
    )
    done = run_python(main)
    assert done.stderr == ""
    assert done.stdout == "True Point(x=3) True\nTrue Broken\n"


@pytest.mark.parametrize("method", METHODS)
def test_torn_value(method):
    """The rank is killed while its value is in the pipe, which holds 64 kB."""

    def work():
        import os
        import signal
        import threading
        import time

        class Slow:
            def __reduce__(self):
                threading.Thread(target=kill, daemon=True).start()
                return bytes, (b"x" * 100_000_000,)

        def kill():
            # Until the main thread is in a write of many bytes: the value is on its way.
            while True:
                with open(f"/proc/self/task/{os.getpid()}/syscall") as f:
                    words = f.read().split()
                if words[0] == "1" and int(words[3], 16) > 1 << 20:
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(0)

        return Slow()

    failed = failure_of(work, nproc=1, start_method=method)
    assert failed.cause.outcome is Outcome.TORN_VALUE
    assert failed.cause.exit.signal == signal.SIGKILL
    assert "while it sent its value" in str(failed)


@pytest.mark.parametrize("method", METHODS)
def test_os_exit(method):
    zero = failure_of(lambda: os._exit(0), nproc=2, start_method=method)
    assert zero.cause.outcome is Outcome.NO_VALUE
    assert zero.exit_code == 1
    assert "os._exit" in str(zero)
    three = failure_of(lambda: os._exit(3), nproc=2, start_method=method)
    assert three.cause.outcome is Outcome.EXITED
    assert three.cause.exit.code == three.exit_code == 3


@pytest.mark.parametrize("method", METHODS)
def test_value_that_does_not_pickle(method):
    failed = failure_of(lambda: Refuses("my own reason"), nproc=2, start_method=method)
    assert failed.cause.outcome is Outcome.UNPICKLABLE
    assert failed.cause.type_name == "rankwork.Refuses"
    assert "my own reason" in str(failed)
    assert failed.exit_code == 1

    def lock():
        import threading

        return {"inside": threading.Lock()}

    failed = failure_of(lock, start_method=method)
    assert failed.cause.outcome is Outcome.UNPICKLABLE
    assert "lock" in str(failed)


def test_value_that_does_not_unpickle_here():
    me = os.getpid()

    def work():
        from rankwork import OnlyThere

        return OnlyThere(me) if os.environ["RANK"] == "1" else 1

    with pytest.raises(ProcessionError) as caught:
        procession.run(work, nproc=2)
    assert "rank 1" in str(caught.value)
    assert "not in this process" in str(caught.value)
    assert isinstance(caught.value.__cause__, LookupError)
    assert OnlyThere.__module__ == "rankwork"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("code", "expected", "message"),
    [
        (5, 5, ""),
        ("words to say", 1, "words to say"),
        (256 + 3, 3, ""),
        (-1, 255, ""),
        (True, 1, ""),
    ],
)
def test_sys_exit(code, expected, message, method):
    failed = failure_of(lambda: sys.exit(code), start_method=method)
    assert failed.cause.outcome is Outcome.EXITED
    assert failed.cause.exit.code == failed.exit_code == expected
    assert failed.cause.message == message
    assert message in str(failed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", [None, 0, 256])
def test_sys_exit_without_a_failure(code, method):
    assert procession.run(lambda: sys.exit(code), nproc=2, start_method=method) == [None, None]


@pytest.mark.parametrize("method", METHODS)
def test_keyboard_interrupt(method):
    def work():
        raise KeyboardInterrupt

    failed = failure_of(work, start_method=method)
    assert failed.cause.outcome is Outcome.INTERRUPTED
    assert failed.cause.exit.signal == signal.SIGINT
    assert failed.exit_code == 130

    def by_signal():
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            signal.pause()

    failed = failure_of(by_signal, start_method=method)
    assert failed.cause.outcome is Outcome.INTERRUPTED


# Signals that end neither a process nor, as KeyboardInterrupt or an error, Python.
OTHERS = (
    "SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGCONT SIGCHLD SIGCLD SIGURG SIGWINCH SIGINT SIGPIPE "
    "SIGXFSZ SIGRTMIN SIGRTMAX"
)
FATAL = [n for n in signal.Signals if n.name not in OTHERS.split()]


def test_each_signal_of_a_function():
    def work(number):
        os.kill(os.getpid(), number)
        while True:
            signal.pause()

    for number in FATAL:
        failed = failure_of(work, args=(int(number),))
        assert failed.cause.outcome is Outcome.SIGNALLED, number
        assert failed.cause.exit.signal == number
        assert f"was killed by {number.name}" in str(failed)
        assert failed.exit_code == 128 + number


def test_each_signal_of_a_command():
    for number in [*FATAL, signal.SIGPIPE, signal.SIGINT, signal.SIGRTMIN + 3]:
        failed = failure_of(["sh", "-c", f"kill -{int(number)} $$"])
        assert failed.cause.outcome is Outcome.SIGNALLED
        assert failed.cause.exit.signal == number
    assert "SIGRTMIN+3" in str(failed)


@pytest.mark.parametrize(
    "end", ["return 5", "raise ValueError('of the child')", "os._exit(1)", "sys.exit(2)"]
)
@pytest.mark.parametrize("method", METHODS)
def test_a_forked_child_does_not_speak_for_its_rank(tmp_path, method, end):
    main = write(
        tmp_path / "main.py",
        f"""
        import os, procession, sys
        def work():
            pid = os.fork()
            if not pid:
                {end}
            os.waitpid(pid, 0)
            return "of the parent"
        print(procession.run(work, nproc=2, start_method={method!r}))
        """,
    )
    done = run_python(main)
    assert done.stdout == "['of the parent', 'of the parent']\n"


def test_a_forked_child_of_a_rank_that_fails():
    def work():
        pid = os.fork()
        if not pid:
            return "child"
        os.waitpid(pid, 0)
        raise ValueError("parent")

    failed = failure_of(work)
    assert str(failed.__cause__) == "parent"


def test_a_child_that_outlives_the_rank_does_not_delay_the_outcome():
    """The child holds a copy of the channel: nobody waits for its end."""

    def work():
        import signal

        if not os.fork():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        return 1

    assert procession.run(work, nproc=2, stop=procession.Stop(grace=0.1)) == [1, 1]


def test_results_of_the_ranks_of_a_success():
    group = procession.start(lambda: "v", nproc=2)
    result = group.wait()
    assert [e.rank for e in result.ranks] == [0, 1]
    for end in result.ranks:
        assert end.outcome is Outcome.RETURNED
        assert end.exit.ok
        assert end.pid in group.pids().values()
        assert 0 < end.seconds < 20


def test_garbage_in_the_outcome_channel_is_not_believed():
    def work():
        for fd in os.listdir("/proc/self/fd"):
            try:
                if int(fd) > 2 and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                    os.write(int(fd), b"\xff" * 1000)
            except OSError:
                pass  # the listing's own
        return 1

    failed = failure_of(work)
    assert failed.cause.outcome is Outcome.NO_VALUE
    assert "what it told is not believed" in str(failed)


def test_closed_descriptors_in_a_rank():
    """A rank that closes everything cannot tell its value: it is said that it did not."""

    def work():
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        return 1

    failed = failure_of(work)
    assert failed.cause.outcome is Outcome.NO_VALUE


def test_rank_that_changes_itself_by_exec():
    failed = failure_of(lambda: os.execvp("true", ["true"]))
    assert failed.cause.outcome is Outcome.NO_VALUE
    failed = failure_of(lambda: os.execvp("sh", ["sh", "-c", "exit 9"]))
    assert failed.cause.exit.code == 9
