"""`system.remains`: what is left of a group is found, and nothing is taken for gone that is not."""

import errno
import os
import signal
import subprocess
import sys

import pytest

import procession
from procession import GroupFailed
from seams.supervise import Ranks
from seams.system import Remains, own_mark, processes, remains, start_of
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


PLAIN = "import sys; print(0, flush=True); sys.stdin.read()"

# The parent of all that it orphans, as a forkserver is.
SUBREAPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
read, write = os.pipe()
if not os.fork():
    pid = os.fork()
    if not pid:
        os.close(write)
        sys.stdin.read()
        os._exit(0)
    os.write(write, str(pid).encode())
    os._exit(0)
os.wait()
print(os.read(read, 100).decode(), flush=True)
os.wait()
"""

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


def test_found_by_its_mark():
    with Script(PLAIN) as script, Script(PLAIN, mark="another's"):
        left = marked()
        assert pids(left.find([])) == [script.pid]
        assert not left.over
    until(lambda: left.find([]) == [] and left.over, "the end")


def test_two_looks_must_find_nothing(monkeypatch):
    """Who forks and ends while a look goes on is not seen by it, and neither is its child."""
    left = marked()
    with Script(PLAIN) as script:
        for found in ([], [script.pid], [], []):
            assert not left.over
            with monkeypatch.context() as patched:
                if not found:
                    patched.setattr(remains, "processes", dict)
                assert pids(left.find([])) == found
        assert left.over


def test_who_gives_up_its_memory_is_not_gone(monkeypatch):
    """From then on, nothing shows whose it was; but it was found before."""
    with Script(PLAIN) as script:
        left = marked()
        assert pids(left.find([])) == [script.pid]
        monkeypatch.setattr(remains, "carries", lambda *_: None)
        assert pids(left.find([])) == [script.pid]


@pytest.mark.parametrize("shows", ["memory", "none"])
def test_who_shows_no_memory_is_looked_at_again(monkeypatch, shows):
    """It is in the middle of an exec, or on its way out."""
    with Script(PLAIN) as script:
        left = marked()
        blank = lambda pid, *_: None if pid == script.pid else False  # noqa: E731
        with monkeypatch.context() as patched:
            patched.setattr(remains, "carries", blank)
            for _ in range(3):
                assert left.find([]) == []
                assert not left.over
        if shows == "memory":
            assert pids(left.find([])) == [script.pid]
        else:  # somebody else's that hangs while it ends
            monkeypatch.setattr(remains, "carries", blank)
            monkeypatch.setattr(remains, "DOUBT_SECONDS", 0.0)
            assert left.find([]) == left.find([]) == []
            assert left.over


def test_a_process_without_its_first_thread():
    with Script(WITHOUT_FIRST_THREAD) as script:
        left = marked()
        assert pids(left.find([])) == [script.pid]


def test_an_orphan_below_another_forkserver_is_not_ours(monkeypatch):
    """Its parent was seen as it was a moment before it ended."""
    with Script(SUBREAPER) as other:
        orphan = other.said[0]
        until(lambda: parent_of(orphan) == other.pid, "a new parent")
        assert pids(marked().find([])) == [other.pid, orphan]
        assert marked().find([other.pid]) == []
        real = remains.processes

        def earlier():
            seen = real()
            was = seen[orphan]
            seen[orphan] = processes.Seen(was.pid, 999_999_999, was.group, was.start)
            return seen

        monkeypatch.setattr(remains, "processes", earlier)
        assert marked().find([other.pid]) == []


@pytest.mark.parametrize("where", ["listing", "reading"])
def test_no_room_to_look_is_not_nothing_left(monkeypatch, where):
    left = marked()

    def none_left(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with Script(PLAIN) as script:
        with monkeypatch.context() as patched:
            if where == "listing":
                patched.setattr(os, "listdir", none_left)
            else:
                patched.setattr(remains, "open", none_left, raising=False)
            assert left.find([]) == left.find([]) == []
            assert not left.over
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


def test_who_missed_the_stop_signal_is_not_spared(monkeypatch):
    """A rank that is reaped already cannot be signalled, and its group neither."""
    real = Ranks.signal_group

    def late(self, rank, number):
        pid = self.records[rank].pid
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of a rank")
        return real(self, rank, number)

    monkeypatch.setattr(Ranks, "signal_group", late)
    stop = procession.Stop(grace=60)
    group = procession.start(["sh", "-c", "sleep 1000 & wait"], nproc=3, stop=stop)
    os.kill(parent_of(group.pids()[0]), signal.SIGKILL)
    with pytest.raises(GroupFailed):
        group.wait(20)
