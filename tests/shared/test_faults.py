"""A shared set-up that fails, or that leaves what may not be shared: said, and nothing is left."""

import os
import signal
import sys
import threading
import time

import pytest

import procession
from support import QUICK, Launcher, alive, failure_of, gone, marked, until, write

RANKS = 3
REPORT = "raised by the shared set-up load(), before the program"


def note(file):
    with open(file, "a") as f:
        f.write(f"{os.getpid()}\n")


def noted(file):
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def is_own(data):
    return data == os.getpid()


# -- what is unfit is loaded by each rank


def start_thread():
    threading.Thread(target=time.sleep, args=(600,), daemon=True, name="reader").start()


def start_process():
    if os.fork() == 0:
        time.sleep(600)


def open_connection():
    import socket

    globals()["kept"] = socket.socketpair()


def change_directory():
    os.chdir("/")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (start_thread, "started a thread (reader)"),
        (start_process, "started a process"),
        (open_connection, "opened a connection"),
        (change_directory, "changed the working directory"),
        (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), "took hold of a signal"),
        (lambda: sys.path.append("/nowhere"), "changed sys.path"),
    ],
)
def test_each_rank_loads_what_may_not_be_shared(tmp_path, caplog, act, said):
    def load():
        note(tmp_path / "calls")
        act()
        return os.getpid()

    assert procession.run(is_own, shared=load, nproc=RANKS, stop=QUICK) == [True] * RANKS
    assert len(noted(tmp_path / "calls")) == RANKS + 1
    what = (
        f"the shared set-up load() {said}: each rank gets a fresh interpreter, and loads for itself"
    )
    until(lambda: what in caplog.text, "the line that says so")
    assert caplog.text.count("shared set-up") == 1


# -- a set-up that fails


def test_what_it_raises_fails_the_group_as_a_rank_would(tmp_path):
    def load():
        note(tmp_path / "calls")
        raise LookupError("no such file")

    failed = failure_of(is_own, shared=load, nproc=RANKS, stop=QUICK)
    assert isinstance(failed.__cause__, LookupError)
    assert failed.cause.outcome is procession.Outcome.RAISED
    report = str(failed)
    assert REPORT in report
    assert 'raise LookupError("no such file")' in report
    assert "agent/sharing.py" not in report
    assert len(failed.failures) == 1
    assert len(noted(tmp_path / "calls")) == 1


def test_sys_exit_is_a_failure_too():
    def load():
        sys.exit(0)

    failed = failure_of(is_own, shared=load, nproc=RANKS, stop=QUICK)
    assert "load() called sys.exit(0)" in str(failed)
    assert failed.exit_code == 1


@pytest.mark.parametrize(
    "nproc",
    [RANKS, pytest.param(80, marks=pytest.mark.long)],  # more than are asked for at once
)
@pytest.mark.parametrize("scope", ["group", "rank"])
def test_a_restart_tries_again(tmp_path, scope, nproc):
    def load():
        note(tmp_path / "calls")
        if len(noted(tmp_path / "calls")) == 1:
            raise RuntimeError("the first time")
        return os.getpid()

    def rank(data):
        return data == os.getppid()

    again = procession.Restart(1, scope=scope)
    values = procession.run(rank, shared=load, nproc=nproc, restart=again, stop=QUICK)
    assert values == [True] * nproc
    assert len(noted(tmp_path / "calls")) == 2


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: os._exit(3), "it ended in the shared set-up load(): exit code 3"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "it ended in the shared set-up load(): SIGKILL (signal 9)",
        ),
        # Its child holds the connection open; and it closes that, and goes on.
        (
            lambda: os._exit(3) if os.fork() else time.sleep(600),
            "it ended in the shared set-up load(): exit code 3",
        ),
        (
            lambda: (os.closerange(3, 1000), time.sleep(600)),
            "it has closed its connection, in the shared set-up load()",
        ),
    ],
)
def test_one_that_ends_its_process_is_named(tmp_path, act, said):
    def load():
        note(tmp_path / "calls")
        act()

    failed = failure_of(is_own, procession.StartFailed, shared=load, nproc=RANKS, stop=QUICK)
    assert said in str(failed)
    assert len(failed.failures) == 1
    gone(noted(tmp_path / "calls"))


def test_one_that_hangs_is_named_by_the_deadline(tmp_path):
    def load():
        note(tmp_path / "calls")
        time.sleep(600)

    failed = failure_of(
        is_own,
        procession.StartFailed,
        shared=load,
        nproc=RANKS,
        hang=procession.Hang(start=1.5),
        stop=QUICK,
    )
    assert "it was still in the shared set-up load() after 1.5 s" in str(failed)
    assert len(failed.failures) == 1
    gone(noted(tmp_path / "calls"))


def test_a_child_that_comes_out_of_it_goes(tmp_path):
    def load():
        if child := os.fork():
            os.waitpid(child, 0)
        return os.getpid()

    assert procession.run(lambda x: x == os.getppid(), shared=load, nproc=2) == [True] * 2


# -- somebody ends it meanwhile

LAUNCHER = """
    import os, subprocess, sys, time
    import procession

    def load():
        child = subprocess.Popen(["sleep", "600"])
        with open(sys.argv[1], "w") as f:
            f.write(f"{os.getpid()} {child.pid}\\n")
        time.sleep(600)

    if __name__ == "__main__":
        try:
            procession.run(len, shared=load, nproc=3, stop=procession.Stop(grace=20))
        except BaseException as e:
            print("raised", type(e).__name__, flush=True)
"""


def loading(tmp_path):
    """Wait until the set-up runs; gives its process and the child that it has started."""
    file = tmp_path / "pids"
    until(lambda: file.exists() and file.read_text().endswith("\n"), "the set-up")
    return noted(file)


def test_ctrl_c_ends_it_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARED_MARK", mark := f"interrupted-{os.getpid()}-{time.time_ns()}")
    script = write(tmp_path / "launcher.py", LAUNCHER)
    with Launcher(script, tmp_path / "pids") as launcher:
        pids = loading(tmp_path)
        began = time.monotonic()
        launcher.signal(signal.SIGINT)
        assert launcher.said("raised") == "KeyboardInterrupt"
        assert time.monotonic() - began < 8  # the grace period of its child is longer
        launcher.end()
    gone(pids)
    until(lambda: not marked(mark), "the end of all")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_its_launcher_is_killed(tmp_path, number):
    script = write(tmp_path / "launcher.py", LAUNCHER)
    with Launcher(script, tmp_path / "pids") as launcher:
        pids = loading(tmp_path)
        launcher.signal(number)
        launcher.end()
    gone(pids)


def test_its_agent_is_killed(tmp_path):
    script = write(tmp_path / "launcher.py", LAUNCHER)
    with Launcher(script, tmp_path / "pids") as launcher:
        pids = loading(tmp_path)
        os.kill(pids[0], signal.SIGKILL)
        assert launcher.said("raised") == "StartFailed"
        assert not alive(pids[1])
        assert launcher.end() == 0
