"""Nothing that takes long keeps a group from being ended: no handler of events, and no disk.

What hangs here hangs until the test lets it go: what waited for it would not happen.
"""

import fcntl
import os
import re
import signal
import threading
import time

import pytest

import procession
from procession import GroupFailed, Logs, Restart, Stop
from seams.driver import journal
from support import OBEDIENT, until

CAUSE = r"one_dies failed: rank 0 of 3 \(pid \d+\) was killed by SIGKILL"


@pytest.fixture
def hold():
    """Give an event to wait for, in what hangs; it is set at the end of the test."""
    let_go = threading.Event()
    yield let_go
    let_go.set()


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    monkeypatch.setattr(journal, "LATE_SECONDS", 0.5)


def one_dies(folder):
    """Rank 0 dies when all are ready; the others note the stop signal, by their own handlers."""
    rank = os.environ["RANK"]

    def stopped(*_):
        (folder / f"stopped.{rank}").touch()
        os._exit(0)

    signal.signal(signal.SIGTERM, stopped)
    (folder / f"ready.{rank}").touch()
    while True:  # a signal right before `signal.pause()` would wake nobody
        if rank == "0" and {"ready.1", "ready.2", "go"} <= {*os.listdir(folder)}:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.002)


def others_are_stopped(folder):
    (folder / "go").touch()
    until(lambda: {"stopped.1", "stopped.2"} <= {*os.listdir(folder)}, "the stop signals")


def test_a_handler_that_hangs_is_named_and_not_waited_for(tmp_path, hold):
    def hanging(event):
        if (event.kind, event.rank) == ("exited", 0):
            hold.wait()

    options = {"args": (tmp_path,), "nproc": 3, "stop": OBEDIENT}
    group = procession.start(one_dies, on_event=hanging, **options)
    others_are_stopped(tmp_path)
    with pytest.raises(GroupFailed, match=r"note: the handler .*hanging.* did not"):
        group.wait(30)


def test_the_stop_signal_does_not_wait_for_a_disk(tmp_path):
    """`events.jsonl` becomes a full pipe, and a write to it waits."""
    options = {"args": (tmp_path,), "nproc": 3, "stop": OBEDIENT}
    group = procession.start(one_dies, logs=Logs(tmp_path / "runs"), **options)
    read, write = os.pipe()
    os.write(write, bytes(fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)))
    os.dup2(write, group.resources.run_dir._events)
    os.close(write)
    others_are_stopped(tmp_path)
    with pytest.raises(GroupFailed, match=r"did not answer for 0\.5 s") as caught:
        group.wait(30)
    os.close(read)  # whoever writes gets EPIPE
    assert re.match(CAUSE, str(caught.value))


def test_a_decision_of_one_rank_keeps_no_other_waiting(hold):
    """While `on_failure` thinks about rank 0, a stop is asked for."""
    asked = threading.Event()

    def thinking(end):
        asked.set()
        hold.wait()

    program = ["sh", "-c", "[ $RANK = 0 ] && exit 3; exec sleep 1000"]
    options = {"nproc": 2, "restart": Restart(max=5, scope="rank"), "on_failure": thinking}
    group = procession.start(program, stop=Stop(grace=20), **options)
    assert asked.wait(20)
    assert group.state is procession.Phase.RUNNING
    group.stop()
    assert group.state.final
    assert not any(os.path.exists(f"/proc/{pid}") for pid in group.pids().values())
