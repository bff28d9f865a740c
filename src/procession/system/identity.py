"""Which process is meant, beyond its pid, which the kernel gives away again.

A mark is `<pid>-<start>-<namespace>`: the start in clock ticks since the machine's, the namespace
of pids by its number, since the pids of a container mean nothing outside of it.
"""

from __future__ import annotations

import os

_own: dict[int, str] = {}  # by pid: a fork is another process


def own_mark() -> str:
    """Give the mark of this process; "" where /proc does not tell."""
    pid = os.getpid()
    if pid not in _own:
        _own.clear()
        _own[pid] = mark_of(pid)
    return _own[pid]


def mark_of(pid: int) -> str:
    """Give the mark of a process; "" if it is gone, a zombie, or hidden."""
    found = start_of(pid)
    try:
        return f"{pid}-{found}-{namespace(pid)}" if found else ""
    except OSError:
        return ""


def start_of(pid: int) -> int:
    """Tell when a process began, in clock ticks since the machine did; 0 if it does not live."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as f:
            fields = f.read().rpartition(b")")[2].split()
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def namespace(pid: int | str = "self") -> int:
    """Give the number of a process's namespace of pids. Raises OSError."""
    return os.stat(f"/proc/{pid}/ns/pid").st_ino


def pid_of(mark: str) -> int:
    """Give the pid in a mark, 0 if it is none."""
    pid = mark.partition("-")[0]
    return int(pid) if pid.isascii() and pid.isdecimal() else 0


def lives(mark: str) -> bool | None:
    """Tell whether the process with this mark lives; None where that cannot be known from here."""
    pid, _, rest = mark.partition("-")
    start, _, where = rest.partition("-")
    if not (pid.isdecimal() and start.isdecimal() and where.isdecimal()):
        return None
    try:
        if int(where) != namespace():
            return None
    except OSError:
        return None
    return start_of(int(pid)) == int(start)


__all__ = ["lives", "mark_of", "namespace", "own_mark", "pid_of", "start_of"]
