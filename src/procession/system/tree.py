"""The children of this process, and ending them. Standard library only.

Only this process can reap its children, so their pids and groups are not reused meanwhile. Where
/proc shows a namespace of pids around ours, its numbers are translated first: the same number may
be another process here.
"""

from __future__ import annotations

import os

from procession.system.files import process_fields
from procession.system.identity import pids_of, proc_is_ours
from procession.system.signals import plain as signal

CHILDREN = "/proc/thread-self/children"  # of a process with one thread: all of them


def children() -> list[int]:
    """Give the pids of this (single-threaded) process's children, zombies included.

    Raises OSError where there is no /proc.
    """
    try:
        with open(CHILDREN, "rb", buffering=0) as f:
            found = [int(word) for word in f.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        own = (pids_of("self") or [0])[0]
        found = [p for p in _processes() if _parent(p) == own]
    if proc_is_ours():
        return found
    depth = len(pids_of("self")) - 1
    return [pids[depth] for pids in map(pids_of, found) if len(pids) > depth]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _parent(pid: int) -> int:
    try:
        return int(process_fields(pid)[1])
    except (OSError, IndexError, ValueError):
        return 0


def signal_group(pid: int, number: int) -> None:
    """Signal the process group that a process leads, and let it go on if it stands still.

    Raises OSError if it is gone.
    """
    signal_leader(pid, number)
    if number != signal.SIGKILL:
        os.killpg(pid, signal.SIGCONT)  # a stopped process could not obey


def signal_groups(pids: list[int], number: int) -> None:
    """The same for many, those that are gone left out: all are told before the first goes on."""
    for pid in pids:
        try:
            signal_leader(pid, number)
        except OSError:
            pass
    for pid in pids if number != signal.SIGKILL else ():
        try:
            os.killpg(pid, signal.SIGCONT)  # a stopped process could not obey
        except OSError:
            pass


def signal_leader(pid: int, number: int) -> None:
    """Signal the process group that a process leads. Raises OSError if it is gone."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not made its session yet
        os.kill(pid, number)


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
            if group in groups:
                continue
            if group == own_group:
                os.kill(pid, number)
                continue
            groups.add(group)
            try:
                os.killpg(group, number)  # the child is in it
            except ProcessLookupError:  # it left the group meanwhile
                os.kill(pid, number)
            if number != signal.SIGKILL:
                os.killpg(group, signal.SIGCONT)  # a stopped process could not obey
        except OSError:
            pass  # gone, or another user's: the caller has a deadline
