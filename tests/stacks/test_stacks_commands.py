"""Programs that cannot answer are looked at from outside, as far as that is possible."""

import json
import subprocess
import sys
import time

import pytest

import procession
from seams.explain import merge, outside
from seams.system import state_of
from support import QUICK, until, write

THREAD = {
    "pid": 7,
    "thread_id": 140,
    "thread_name": "MainThread",
    "os_thread_id": 7,
    "active": False,
    "owns_gil": False,
    "frames": [
        {"name": "wait", "filename": "/usr/lib/python3.11/threading.py", "line": 3},
        {"name": "f", "filename": "/home/me/a.py", "line": 4},
    ],
}


def said(*threads):
    return json.dumps(threads).encode()


def test_what_pyspy_says_is_read():
    other = {**THREAD, "thread_name": "worker", "os_thread_id": 8, "frames": []}
    for threads in ((THREAD, other), (other, THREAD)):
        seen = outside.read_spied(7, said(*threads), b"")
        assert seen.frames[-1] == ("/home/me/a.py", 4, "f")


@pytest.mark.parametrize(
    ("out", "err", "fault"),
    [
        (b"", b"Error: Permission denied (os error 13)\n", "not permitted"),
        (b"", b"Error: Failed to find python version\nReason: ...", "Failed to find python"),
        (b"[", b"", "it said nothing"),
        (b"[]", b"", "it said nothing"),
        (b'{"a": 1}', b"", "it said nothing"),
        (said({**THREAD, "frames": [{}]}), b"", "it said nothing"),
        (b"\xff", b"\xff", "\ufffd"),
        (b"[" * 100_000, b"", "it said nothing"),
    ],
)
def test_what_is_no_answer(out, err, fault):
    assert outside.read_spied(7, out, err).fault.startswith(f"py-spy: {fault}")


def asleep(pid):
    state = state_of(pid)
    return state is not None and state.letter == "S"


def test_without_pyspy_there_is_the_state_and_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(outside, "find_pyspy", lambda: None)
    with procession.start(["sleep", "1000"], nproc=2, stop=QUICK) as group:
        for pid in group.pids().values():
            until(lambda pid=pid: asleep(pid), "a sleeping rank")
        stacks, native = group.stacks(), group.stacks(native=True)
    needed = "its stack needs py-spy: pip install 'procession[stacks]'"
    assert [s["native"] for s in native] == [[needed]] * 2
    assert [s["rank"] for s in stacks] == [0, 1]
    for found in stacks:
        assert found["frames"] == []
        assert found["state"].startswith("sleeps")
        assert found["state"].endswith(needed)
    assert merge.format(stacks).startswith("2 ranks [0-1] sleep ")


def test_a_pyspy_that_hangs_is_ended(monkeypatch, tmp_path):
    spy = write(tmp_path / "py-spy", "#!/bin/sh\nexec sleep 1000\n")
    spy.chmod(0o755)
    monkeypatch.setattr(outside, "find_pyspy", lambda: str(spy))
    with procession.start(["sleep", "1000"], nproc=1, stop=QUICK) as group:
        (found,) = group.stacks(0.2)
    assert found["state"].endswith("py-spy: it took too long")


def may_trace(tmp_path):
    """Say why py-spy cannot look at a program here, "" if it can."""
    if (spy := outside.find_pyspy()) is None:
        return "py-spy is not installed"
    path = write(tmp_path / "probe.py", "print(1, flush=True)\ninput()\n")
    with subprocess.Popen(
        [sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as probe:
        probe.stdout.read(1)
        seen = outside._spied(spy, [probe.pid], 20.0)[probe.pid]
        probe.stdin.close()
    return seen.fault


@pytest.fixture
def tracing(tmp_path):
    if why := may_trace(tmp_path):
        pytest.skip(f"py-spy cannot look at other processes here: {why}")


SCRIPT = """
    import time
    def here():
        time.sleep(1000)
    here()
    """


def test_python_that_was_started_as_a_command(tmp_path, tracing):
    path = write(tmp_path / "slow.py", SCRIPT)
    with procession.start([sys.executable, str(path)], nproc=2, stop=QUICK) as group:

        def look():
            stacks = [merge.from_dict(s) for s in group.stacks(10.0)]
            return all(s.frames and s.frames[0][2] == "here" for s in stacks) and stacks

        lines = merge.lines_of(merge.together(until(look, "both in here()", 30)))
        assert lines == ["2 ranks [0-1] are in here (slow.py:3)"]


def test_native_frames_of_all_ranks(tracing):
    with procession.start(time.sleep, args=(1000,), nproc=2, stop=QUICK) as group:
        until(lambda: all(s["frames"] or s["state"] for s in group.stacks()))

        def sleeping():
            found = group.stacks(20.0, native=True)
            return found if all(any("sleep" in f for f in s["native"]) for s in found) else None

        found = until(sleeping, patience=40)
    text = merge.format(found)
    assert "with native code, the innermost first:" in text
    assert "sleep" in text  # of Python's `time_sleep`, a stripped interpreter has no name
