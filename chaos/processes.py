"""What processes there are, as /proc has it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
held = libc.ptrace(0x4206, pid, 0, 0) == 0 and libc.ptrace(0x4207, pid, 0, 0) == 0
print("held" if held else "refused", flush=True)
sys.stdin.read()
"""  # PTRACE_SEIZE, PTRACE_INTERRUPT
T = TypeVar("T")
MARK = "PROCESSION_CHAOS"  # the variable by which all processes of a worker's trials are known


def until(condition: Callable[[], T], seconds: float) -> T:
    """Wait until a condition holds; gives what it gave at last."""
    deadline = time.monotonic() + seconds
    while not (seen := condition()) and time.monotonic() <= deadline:
        time.sleep(0.005)
    return seen


def send(pid: int, number: int) -> None:
    """Send a signal, if the process is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_marked(value: str, name: str = MARK) -> None:
    """Kill all processes whose environment has a variable with this value."""
    for pid in marked(value, name):
        send(pid, signal.SIGKILL)


def put(path: Path, text: str) -> None:
    """Write a file that others see whole."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    return state(pid) not in ("", "Z", "X")


def state(pid: int) -> str:
    """Give the letter of a process's state, "" if there is none."""
    fields = _stat(pid)
    return fields[0] if fields else ""


def parent(pid: int) -> int:
    """Give the parent of a process, 0 if it is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return []


def marked(value: str, name: str = MARK) -> list[int]:
    """Give the processes, but for this one, whose environment has a variable with this value."""
    wanted = f"{name}={value}".encode()
    found: list[int] = []
    for number in os.listdir("/proc"):
        if not number.isdecimal() or int(number) == os.getpid():
            continue
        try:
            with open(f"/proc/{number}/environ", "rb") as f:
                if wanted in f.read().split(b"\0"):
                    found.append(int(number))
        except OSError:
            pass  # gone, or a zombie
    return found


def children(pid: int) -> list[int]:
    """Give the children of a process that are no zombies."""
    found: set[int] = set()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as f:
                found |= {int(word) for word in f.read().split()}
    except OSError:
        pass
    return [each for each in found if alive(each)]


def command_line(pid: int) -> str:
    """Give the words of a process."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            return f.read().replace("\0", " ").strip()
    except OSError:
        return "gone"


def named(pids: Iterable[int]) -> str:
    """Name processes by their command lines."""
    return ", ".join(f"{pid} ({command_line(pid)[:160]})" for pid in pids)


def descriptors() -> dict[int, str]:
    """Give the open descriptors of this process and what they lead to."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # the listing's own
    return found


def wait_gone(
    value: str, seconds: float, but: Iterable[int] = (), name: str = MARK
) -> tuple[list[int], float]:
    """Wait until no marked process is left; gives those that are, and how long it took."""
    began, spared = time.monotonic(), {*but}
    while (left := {*marked(value, name)} - spared) and time.monotonic() <= began + seconds:
        time.sleep(0.005)
    return sorted(left), time.monotonic() - began


@contextlib.contextmanager
def held(pid: int) -> Iterator[bool]:
    """Hold a process, as a debugger does, so that SIGKILL alone reaches it; tells whether it is."""
    ours = (MARK, "PROCESSION_TEST")  # what holds it is no process of a trial or a test
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", TRACER, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name not in ours},
    ) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        try:
            yield tracer.stdout.readline() == b"held\n"
        finally:
            tracer.stdin.close()
