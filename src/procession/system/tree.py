"""The children of this process, and ending them. Standard library only.

Only this process can reap its children, so their pids and groups are not reused meanwhile.
"""

from __future__ import annotations

import os

from procession.system import plain as signal

CHILDREN = "/proc/thread-self/children"  # of a process with one thread: all of them


def children() -> list[int]:
    """Give the pids of this (single-threaded) process's children, zombies included.

    Raises OSError where there is no /proc.
    """
    with open(CHILDREN, "rb", buffering=0) as f:
        return [int(word) for word in f.read().split()]


def kill_sessions(sessions: set[int]) -> set[int]:
    """Kill every child in one of these sessions; gives the sessions that had children."""
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
    """Signal every child and its process group once, except those in `already` and in `groups`.

    A signalled child is added to `already`, its group to `groups`: for many programs, a second stop
    signal means to end without cleanup.
    """
    own_group = os.getpgrp()
    for pid in children():
        if pid in already:
            continue
        already.add(pid)
        try:
            group = os.getpgid(pid)
            if group == own_group:
                os.kill(pid, number)
            elif group not in groups:
                groups.add(group)
                try:
                    os.killpg(group, number)  # the child is in it
                except ProcessLookupError:  # it left the group meanwhile
                    os.kill(pid, number)
                if number != signal.SIGKILL:
                    os.killpg(group, signal.SIGCONT)  # a stopped process could not obey
        except OSError:
            pass  # gone, or another user's: the caller has a deadline
