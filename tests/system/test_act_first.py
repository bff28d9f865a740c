"""Nothing that takes long keeps a group from being ended: no handler of events, and no disk."""

import fcntl
import os
import re
import signal
import threading
import time

import pytest

import procession
from conftest import until
from procession import Logs, Restart, Stop
from seams.supervise import LATE_SECONDS
from support import METHODS, reader_of

AT_ONCE = 1.5  # seconds, on a busy machine; what is not to be waited for takes longer
SLOW = 5.0
CAUSE = r"one_dies failed: rank 0 of 3 \(pid \d+\) was killed by SIGKILL"
OBEDIENT = Stop(grace=20)


def stamp(folder, what):
    """Write down when something happened in a rank, whole or not at all."""
    path = os.path.join(folder, f"{what}.{os.environ['RANK']}")
    with open(f"{path}.new", "w") as f:
        f.write(f"{time.monotonic_ns()}\n")
    os.rename(f"{path}.new", path)


def one_dies(folder):
    """Rank 0 dies when all are ready; the others stamp the stop signal, by their own handlers."""

    def stopped(*_):
        stamp(folder, "stopped")
        os._exit(0)

    signal.signal(signal.SIGTERM, stopped)
    stamp(folder, "ready")
    if os.environ["RANK"] == "0":
        while not all(os.path.exists(f"{folder}/{what}") for what in ("ready.1", "ready.2", "go")):
            time.sleep(0.001)
        stamp(folder, "died")
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()


def seconds_to_stop(folder):
    """Give the seconds from the death of rank 0 until the last of the others was signalled."""
    names = ["died.0", "stopped.1", "stopped.2"]
    died, *stopped = (until(reader_of(folder / name), name)[0] for name in names)
    return (max(stopped) - died) / 1e9


def go(folder):
    (folder / "go").touch()


def test_a_handler_that_hangs_is_named_and_not_waited_for(tmp_path):
    let_go = threading.Event()

    def hanging(event):
        if (event.kind, event.rank) == ("exited", 0):
            let_go.wait(60)

    try:
        group = procession.start(
            one_dies, args=(str(tmp_path),), nproc=3, stop=OBEDIENT, on_event=hanging
        )
        go(tmp_path)
        assert seconds_to_stop(tmp_path) < AT_ONCE
        began = time.monotonic()
        with pytest.raises(procession.GroupFailed, match=r"note: the handler .*hanging.* did not"):
            group.wait()
        assert time.monotonic() - began < 3 * LATE_SECONDS
    finally:
        let_go.set()


class FullPipe:
    """What `events.jsonl` becomes when its disk hangs: a write to it waits."""

    def __init__(self, group):
        self._read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        os.write(write, bytes(4096))
        os.dup2(write, group._resources.run_dir._events)
        os.close(write)

    def drain(self):
        if self._read >= 0:
            os.close(self._read)  # whoever writes gets EPIPE
            self._read = -1


@pytest.fixture
def hanging():
    made = []

    def hang(group):
        made.append(FullPipe(group))
        return made[-1]

    yield hang
    for each in made:
        each.drain()


def test_the_stop_signal_does_not_wait_for_a_disk(tmp_path, hanging):
    group = procession.start(
        one_dies, args=(str(tmp_path),), nproc=3, stop=OBEDIENT, logs=Logs(tmp_path / "runs")
    )
    hanging(group)
    go(tmp_path)
    assert seconds_to_stop(tmp_path) < AT_ONCE
    began = time.monotonic()
    with pytest.raises(procession.GroupFailed, match="did not answer for 5 s") as caught:
        group.wait()
    assert time.monotonic() - began < 3 * LATE_SECONDS
    assert re.match(CAUSE, str(caught.value))


def failing_when_told(folder):
    """Each rank fails when its file is there; in its second life it waits."""
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    stamp(folder, f"up{attempt}")
    while attempt != "0" or not os.path.exists(f"{folder}/fail.{os.environ['RANK']}"):
        time.sleep(0.001)
    stamp(folder, "failed")
    os._exit(3)


def test_a_decision_of_one_rank_keeps_no_other_waiting(tmp_path):
    """While `on_failure` thinks about rank 0, rank 1 fails, and a stop is asked for."""
    asked, let_go = threading.Event(), threading.Event()

    def thinking(end):
        asked.set()
        let_go.wait(60)

    group = procession.start(
        failing_when_told,
        args=(str(tmp_path),),
        nproc=2,
        stop=Stop(grace=0.2),
        restart=Restart(max=5, scope="rank"),
        on_failure=thinking,
    )
    try:
        (tmp_path / "fail.0").touch()
        assert asked.wait(10)
        assert group.state is procession.Phase.RUNNING
        began = time.monotonic()
        group.stop()
        assert time.monotonic() - began < SLOW + LATE_SECONDS
        assert group.state.final
        assert not any(os.path.exists(f"/proc/{pid}") for pid in group.pids().values())
    finally:
        let_go.set()


@pytest.mark.parametrize("method", METHODS[:2])
def test_a_rank_is_not_lost_while_it_is_decided_whether_it_starts_again(method):
    """Its process is gone, and a decision may take longer than the end of a process."""
    stop = Stop(linger=0.02, reap=0.05)

    def work():
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "0":
            raise ValueError("once")
        return os.environ["TORCHELASTIC_RESTART_COUNT"]

    values = procession.run(
        work,
        nproc=2,
        start_method=method,
        stop=stop,
        restart=Restart(max=1, scope="rank"),
        on_failure=lambda end: time.sleep(10 * (stop.linger + stop.reap)),
    )
    assert values == ["1", "0"]
