"""The children of this process, and ending them. Standard library only."""

from __future__ import annotations

import os
import signal


def children() -> list[int]:
    """Give the pids of this (single-threaded) process's children, zombies included."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as f:
            return [int(word) for word in f.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [p for p in _processes() if _parent(p) == pid]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as f:
            return int(f.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def kill_sessions(sessions: set[int]) -> set[int]:
    """Kill every child that is in one of these sessions; gives those that had some."""
    found: set[int] = set()
    for pid in children():
        try:
            session = os.getsid(pid)
            if session in sessions:
                found.add(session)
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass  # gone
    return found


def signal_children(number: int, already: set[int], groups: set[int]) -> None:
    """Signal every child and its process group, but for those in `already` and in `groups`.

    Who was signalled is added to `already`. A child is ours to reap, so neither its pid nor its
    group can be somebody else's by now.
    """
    own_group = os.getpgrp()
    for pid in children():
        if pid in already:
            continue
        already.add(pid)
        try:
            group = os.getpgid(pid)
            if group in groups:
                continue
            os.kill(pid, number)
            if group != own_group:
                os.killpg(group, number)
                if number != signal.SIGKILL:
                    os.killpg(group, signal.SIGCONT)  # a stopped process could not obey
        except OSError:
            pass  # gone, or another user's: the caller's deadline tells
