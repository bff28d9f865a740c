"""Whether a process has begun to die, as the kernel shows it."""

import contextlib
import os
import signal
import subprocess
import sys

from seams.system import processes
from support import until


def test_one_that_lives_sleeps_or_is_stopped_does_not_die():
    assert not processes.is_dying(os.getpid())
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            assert not processes.is_dying(child.pid)
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert not processes.is_dying(child.pid)
        finally:
            child.kill()


def test_one_that_has_ended_or_is_gone_dies():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.is_dying(child.pid)
    child.wait()
    assert processes.is_dying(child.pid)


def test_it_shows_at_once_and_long_before_there_is_a_zombie():
    """Right after SIGKILL a process with much memory is no zombie, and dies nevertheless."""
    code = "m = bytearray(1 << 28); print(flush=True); input()"
    early = 0
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as child:
            child.stdout.readline()
            child.kill()
            # For a moment the signal is taken, and the process has not begun to end.
            until(lambda pid=child.pid: processes.is_dying(pid), patience=1.0)
            with contextlib.suppress(OSError), open(f"/proc/{child.pid}/stat") as f:
                early += f.read().rpartition(")")[2].split()[0] != "Z"
    assert early


def test_what_cannot_be_seen_may_be_dying(monkeypatch):
    monkeypatch.setattr(processes, "proc_is_ours", lambda: False)
    assert processes.is_dying(os.getpid())
