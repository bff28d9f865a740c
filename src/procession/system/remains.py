"""What is left of a group, found from outside, where its agent cannot say or is gone.

An agent knows what is below it, since it is the parent of it all. Its launcher has to look
through /proc: for the descendants of the agent while there is one, and for processes whose
environment holds the launcher's mark (`PROCESSION_LAUNCHER`). Everything that a rank starts
inherits the mark, and keeps it after its parents have gone. Other groups of the same launcher carry
the same mark: what is below their agents is left alone.

A fork of the launcher (start method "fork") shows the launcher's own environment in /proc, without
a mark. Instead it has a page of memory that all its forks share, and that /proc shows by its name.
What these forks start by exec has the mark.

A look at /proc is no snapshot. What it misses must not be taken for gone:

- A process that ends gives up its memory first. That takes longer the more memory it has, and a
  busy machine may delay it. Such a process has neither environment nor pages, but still its files,
  ports and devices. So a process that was found once counts until it is gone.
- A process that was never found may be in that state, or in the middle of an exec, where it has no
  environment yet. If it is younger than the agent, it may belong to the group: it is looked at
  again, for DOUBT_SECONDS at most.
- A process that forks and ends during the look is gone when it is looked at, and its child is not
  on the list. So nothing is left only when two looks in a row have found nothing.
- A parent may end between the look at its child and the look at itself. So a process that has the
  mark and seems to have no agent above it is looked at once more, with its parents.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Collection, Iterable

from procession.system.files import named, process_fields
from procession.system.processes import (
    NO_ROOM,
    ProcessInfo,
    below,
    parents,
    processes,
    seen_in,
    send,
)

VARIABLE = b"PROCESSION_LAUNCHER="
QUIET_LOOKS = 2  # looks in a row that must find nothing
KTHREADD = 2  # the parent of the threads of the kernel, which show nothing either
DOUBT_SECONDS = 2.0  # that a process has to end, or to get its environment


def _read(path: str) -> bytes:
    """Read a file in /proc; b"" if its process is gone, or has no memory. Raises OSError."""
    try:
        with open(path, "rb", buffering=0) as f:
            return f.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def page_file() -> tuple[int, str]:
    """Make the file of a page that forks are to share: its descriptor and its name.

    Raises OSError.
    """
    name = f"procession-group-{os.urandom(8).hex()}"
    try:
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
    except OSError as e:
        raise named("memfd_create", e) from None
    os.ftruncate(fd, mmap.PAGESIZE)
    return fd, name


def carries(pid: int, mark: str, page: str) -> bool | None:
    """Whether a process has this mark of a launcher, or this page; None if it shows nothing now.

    Raises OSError if this process has no descriptor or memory left to look with.
    """
    try:
        shown = _carries(f"/proc/{pid}", mark, page)
        if shown is None:
            fields = process_fields(pid)
            if seen_in(pid, fields) is None or fields[47] == fields[48] != b"0":
                return False  # it is gone; its environment is empty
            # Its first thread may have ended before the others.
            for thread in os.listdir(f"/proc/{pid}/task"):
                shown = shown or _carries(f"/proc/{pid}/task/{thread}", mark, page)
    except OSError as e:
        if e.errno in NO_ROOM:
            raise
        return False  # another user's, or gone
    return shown


def _carries(place: str, mark: str, page: str) -> bool | None:
    # The page first: a process that execs between the two looks has the mark afterwards.
    if page and page.encode() in _read(f"{place}/maps"):
        return True
    environment = _read(f"{place}/environ")
    if not environment:
        return None
    return bool(mark) and VARIABLE + mark.encode() in environment.split(b"\0")


class Remains:
    """What is left of one group.

    server: the pid of its agent. start: when that began, in clock ticks since the machine
    started, 0 if not known. mark: of its launcher. page: the name of the page of its forks, "" for
    none. sessions: of its ranks, whose processes belong to it whatever they carry.
    """

    def __init__(
        self, server: int, start: int, mark: str, page: str, sessions: Collection[int] = ()
    ) -> None:
        self._pid = server
        self._start = start
        self._mark = mark
        self._page = page
        self._sessions = sessions
        self._found: set[tuple[int, int]] = set()  # pid and start, by the last look
        self._doubted: dict[tuple[int, int], float] = {}  # since when
        self._quiet = 0  # looks in a row that have found nothing

    @property
    def over(self) -> bool:
        """Whether nothing is left, for sure."""
        return self._quiet >= QUIET_LOOKS

    def find(self, others: Collection[int]) -> list[ProcessInfo]:
        """Find what is left now. others: the pids of the launcher's other agents."""
        self._quiet += 1
        try:
            return self._find(others)
        except OSError:  # no descriptor or memory to look with: perhaps the next time
            self._quiet = 0
            return []

    def _find(self, others: Collection[int]) -> list[ProcessInfo]:
        seen = processes()
        not_ours = below(others, seen) | {os.getpid(), *others}
        found = {each.pid for each in seen.values() if (each.pid, each.start) in self._found}
        server = seen.get(self._pid)
        if server is not None and server.start == self._start:
            not_ours.add(self._pid)
            found |= below([self._pid], seen)
        if self._mark or self._page:
            for pid in seen.keys() - not_ours - found:
                if self._is_ours(seen[pid], others):
                    found.add(pid)
        found = (found | below(found, seen)) - not_ours
        left = [seen[pid] for pid in sorted(found)]
        self._found = {(each.pid, each.start) for each in left}
        if left:
            self._quiet = 0
        return left

    def _is_ours(self, each: ProcessInfo, others: Collection[int]) -> bool:
        """Whether a process belongs to this group by what it carries; takes note of a doubt."""
        if each.start < self._start:
            return False
        if each.session in self._sessions:
            return True
        carried = carries(each.pid, self._mark, self._page)
        if carried is False or (carried is None and each.parent == KTHREADD):
            return False
        above = parents(each.pid)
        if above is None:
            self._quiet = 0
            return False
        if any(pid in others for pid in above):
            return False
        if carried:
            return True
        since = self._doubted.setdefault((each.pid, each.start), time.monotonic())
        if time.monotonic() - since < DOUBT_SECONDS:
            self._quiet = 0
        return False

    def kill(self, left: Iterable[ProcessInfo]) -> None:
        """Send SIGKILL to these processes."""
        for each in left:
            send(each, signal.SIGKILL)
