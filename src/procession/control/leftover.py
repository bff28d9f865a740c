"""What launchers that were killed have left, and ending it.

A launcher's forkserver ends what is below it when the launcher is gone. Only where both are killed,
processes stay (see "Limits" in the design), a socket, and a scratch directory. A process belongs to
the launcher whose mark is in its environment. Who has inherited the mark of a dead launcher, but is
a launcher itself, or serves a living run, is not touched, nor is anything in another namespace of
pids, where a mark says nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence

from procession.control.ask import Connection
from procession.control.place import Refused, inside, open_runtime
from procession.control.processes import Process, ancestors, below, read_processes
from procession.control.runs import remove_hidden, remove_socket
from procession.system.identity import lives, pid_of, start_of

FORKSERVER_SECONDS = 2.0  # that a forkserver has to do it by itself
GRACE = 3.0  # seconds from SIGTERM to SIGKILL
REAP = 5.0  # seconds to vanish after SIGKILL


def left_behind(
    processes: Mapping[int, Process], alive: Callable[[str], bool | None], own: int
) -> list[Process]:
    """Choose the processes of dead launchers. Pure.

    alive: whether the launcher of a mark lives, None: not known. own: the pid that asks.
    """
    marked = {p.pid: p.env["PROCESSION_LAUNCHER"] for p in processes.values()
              if p.env.get("PROCESSION_LAUNCHER")}  # fmt: skip
    known = {mark: alive(mark) for mark in set(marked.values())}
    serving = {pid for pid, mark in marked.items() if known[mark] is not False}
    launchers = {pid_of(mark) for mark in known if known[mark] is not False}
    kept = below(serving, processes) | launchers | {own}
    for pid in list(kept):
        kept.update(ancestors(pid, processes))
    dead = {pid for pid, mark in marked.items() if known[mark] is False} - kept
    return [processes[pid] for pid in sorted(below(dead, processes) - kept)]


def find_left() -> list[Process]:
    """Find them, after forkservers had their time."""
    until = time.monotonic() + FORKSERVER_SECONDS
    while True:
        found = left_behind(read_processes(), lives, os.getpid())
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def end_processes(processes: Sequence[Process]) -> list[Process]:
    """End them: SIGTERM, a few seconds, SIGKILL; gives those that are still there."""
    handles: dict[int, Process] = {}
    for process in processes:
        try:
            fd = os.pidfd_open(process.pid)
        except OSError:
            continue  # it is gone
        if start_of(process.pid) != process.start:  # its pid is somebody else's by now
            os.close(fd)
            continue
        handles[fd] = process
    left = list(handles)
    try:
        for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, REAP)):
            for fd in left:
                try:
                    signal.pidfd_send_signal(fd, number)
                except OSError:
                    pass  # it is gone
            left = _await(left, handles, seconds)
        return [handles[fd] for fd in left]
    finally:
        for fd in handles:
            os.close(fd)


def _await(fds: list[int], handles: Mapping[int, Process], seconds: float) -> list[int]:
    until = time.monotonic() + seconds
    while fds and time.monotonic() < until:
        fds = [fd for fd in fds if start_of(handles[fd].pid) == handles[fd].start]
        if fds:
            time.sleep(0.02)
    return fds


def dead_sockets(*, remove: bool) -> list[str]:
    """Find the sockets at which nobody listens, and maybe remove them."""
    try:
        directory = open_runtime(make=False)
    except (OSError, Refused):
        return []
    found: list[str] = []
    try:
        for name in sorted(os.listdir(directory)):
            if not stat.S_ISSOCK(os.lstat(inside(directory, name)).st_mode):
                continue
            if name.startswith("."):
                if remove and remove_hidden(directory, name):
                    found.append(name)
                continue
            try:
                Connection(directory, name, 1.0).close()
            except ConnectionRefusedError:
                found.append(name)
                if remove:
                    remove_socket(directory, name)
            except OSError:
                continue
    finally:
        os.close(directory)
    return found


def dead_scratch(*, remove: bool) -> list[str]:
    """Find the scratch directories of dead launchers, and maybe remove them."""
    found: list[str] = []
    for place in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp"]):  # noqa: S108 - only our own
        try:
            names = os.listdir(place)
        except OSError:
            continue
        for name in names:
            _, at, mark = name.partition("@")
            path = os.path.join(place, name)
            if not at or not name.startswith("procession_") or lives(mark) is not False:
                continue
            try:
                seen = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid():
                found.append(path)
                if remove:
                    shutil.rmtree(path, ignore_errors=True)
    return found


__all__ = ["dead_scratch", "dead_sockets", "end_processes", "find_left", "left_behind"]
