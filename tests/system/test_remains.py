"""`system.remains`: what is left of a group is found, and nothing is taken for gone that is not."""

import os
import signal
import subprocess
import sys

import pytest

import procession
from procession import GroupFailed
from seams.system import Remains, own_mark, processes, start_of
from support import OBEDIENT, alive, until

MEMORY = 100 << 20


def parent_of(pid):
    seen = processes.look_at(pid)
    return seen.parent if seen else None


def marked():
    """Look for what is younger than this process and has its mark, whatever its forkserver."""
    return Remains(0, start_of(os.getpid()), own_mark())


def pids(found):
    return [each.pid for each in found]


class Script:
    """A process with our mark that says pids, and stays until it is ended."""

    def __init__(self, source, mark=None):
        self.process = subprocess.Popen(
            [sys.executable, "-c", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PROCESSION_LAUNCHER": own_mark() if mark is None else mark},
        )
        self.pid = self.process.pid

    def __enter__(self):
        self.said = [int(word) for word in self.process.stdout.readline().split()]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


# Its first thread has ended, and another one goes on.
WITHOUT_FIRST_THREAD = """
import ctypes, sys, threading, time
def stay():
    while True:
        if open("/proc/self/stat").read().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.001)
    print(0, flush=True)
    sys.stdin.read()
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_a_process_without_its_first_thread():
    with Script(WITHOUT_FIRST_THREAD) as script:
        left = marked()
        assert pids(left.find([])) == [script.pid]


# -- groups whose forkserver is killed


def large_family(place):
    """Have a child and an orphan, which take their time to end: they have much memory."""

    def stay(name):
        memory = bytearray(b"x") * MEMORY
        with open(f"{place}/{name}.new", "w") as f:
            f.write(str(os.getpid()))
        os.rename(f"{place}/{name}.new", f"{place}/{name}.pid")
        while memory:
            signal.pause()

    rank = os.environ["RANK"]
    if not os.fork():
        stay(f"child{rank}")
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        stay(f"orphan{rank}")
    signal.pause()


@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_group_is_over_when_memory_and_files_are_given_up(tmp_path, method):
    group = procession.start(
        large_family, args=(str(tmp_path),), nproc=2, stop=OBEDIENT, start_method=method
    )
    until(lambda: len(list(tmp_path.glob("*.pid"))) == 4, "the families")
    os.kill(parent_of(group.pids()[0]), signal.SIGKILL)
    with pytest.raises(GroupFailed):
        group.wait(20)
    assert [p.stem for p in tmp_path.glob("*.pid") if alive(int(p.read_text()))] == []
