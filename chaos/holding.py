"""Striking a process: killed, stopped, or held by a debugger so that no SIGCONT lets it go on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from chaos import processes

TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
held = libc.ptrace(0x4206, pid, 0, 0) == 0 and libc.ptrace(0x4207, pid, 0, 0) == 0
print("held" if held else "refused", flush=True)
sys.stdin.read()
"""  # PTRACE_SEIZE, PTRACE_INTERRUPT


def send(pid: int, number: int) -> None:
    """Send a signal, if the process is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def stop_and_kill(pid: int, seconds: float) -> None:
    """Stop a process, and kill it so much later."""
    send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    send(pid, signal.SIGKILL)


@contextlib.contextmanager
def held(pid: int) -> Iterator[bool]:
    """Hold a process, as a debugger does; tells whether that could be done."""
    env = {name: value for name, value in os.environ.items() if name != processes.MARK}
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", TRACER, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,  # it is no process of the trial
    ) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        try:
            yield tracer.stdout.readline() == b"held\n"
        finally:
            tracer.stdin.close()
