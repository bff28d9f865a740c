"""The processes below the forkserver: signalling them, reaping them, and ending what is left.

Theory of operation. Its children are the ranks, and whatever ranks have orphaned: the forkserver is
a subreaper. An exit is taken by `waitpid` alone, and reported if it was a rank's. Before each round
of signals everything that is dead is reaped and reported, so that a rank that died by itself is
never taken for one that was signalled.

A sweep goes on by itself: after each exit, the children that have no signal yet get it, until
waitpid says ECHILD. Only this process reaps its children, so a pid means the same process until
then.

Rejected: pidfds for the children (orphans come unannounced, and SIGCHLD is needed for them anyway);
walking the process tree before killing it (not atomic: processes were lost).
"""

from __future__ import annotations

import os

# `os.wait4` needs it, when there may be no descriptor left to import it with.
import resource  # noqa: F401  # pyright: ignore[reportUnusedImport]
import time

from procession.system import tree
from procession.system.signals import plain as signal
from procession.system.signals import signal_groups

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from procession.forkserver.forking import Forking


class Children:
    """The children of this process, which has one thread.

    forking: knows what ranks say on their way to their program. report: takes the parts of a
    message to the launcher.
    """

    def __init__(self, forking: Forking, report: Callable[..., None]) -> None:
        self._forking = forking
        self._report = report
        self._pids: dict[int, int] = {}  # rank -> pid, until it is reaped
        self._ranks: dict[int, tuple[int, int]] = {}  # pid -> rank, and when it began, until then
        self._sessions: dict[int, int] = {}  # rank -> the session of the process it had last
        self._sweep = 0  # the signal of a sweep in progress
        self._sweep_of = 0  # its number
        self._swept: set[int] = set()  # pids that got it
        self._groups: set[int] = set()  # process groups that got the stop signal as ranks
        # Sessions of ranks that start again, in which nothing may be left.
        self._cleaned: set[int] = set()

    def begin(self) -> None:
        """Take note that another attempt begins."""
        self._groups = set()

    def make_way(self, rank: int) -> None:
        """Report the end of the process that a rank has had, if that was not noticed yet.

        To be called before it is started again: its launcher may have seen that end before us.
        """
        if rank in self._pids:
            self.reap()

    def add(self, rank: int, pid: int, began: int) -> None:
        """Take note of a rank that was started, and when: that tells its processes apart."""
        self._pids[rank], self._ranks[pid] = pid, (rank, began)
        self._sessions[rank] = pid

    def _began(self, rank: int) -> int:
        """Tell when a rank's process began, 0 if it has none."""
        return self._ranks.get(self._pids.get(rank, 0), (rank, 0))[1]

    def read_status(self, fd: int) -> None:
        """Read what a rank says on its way; report it if it has reached its program."""
        rank = self._forking.read_status(fd)
        if rank is not None:
            self._report("ready", rank, self._began(rank), time.monotonic_ns())

    def signal_ranks(self, number: int, ranks: list[int]) -> bool:
        """Signal the process groups of ranks, and report which were there; False if none was."""
        self.reap()
        at = time.monotonic_ns()
        pids = [self._pids[rank] for rank in ranks if rank in self._pids]
        if number != signal.SIGKILL:
            self._groups.update(pids)
        signal_groups(pids, number)
        if pids:
            self._report("signalled", number, [self._ranks[pid] for pid in pids], at)
        return bool(pids)

    def sweep(self, number: int, which: int) -> None:
        """Signal all children, those to come as well, and report when none is left.

        which: the number of this sweep, to be reported. Ranks that got the stop signal already do
        not get another one; except from a second sweep that begins before the first has ended.
        """
        if self._sweep:  # a second one, in a hurry: for all
            self._groups = set()
        self._sweep, self._sweep_of, self._swept = number, which, set()
        self.reap()

    def clean(self, rank: int) -> None:
        """Kill what a rank that is to start again has left in its session.

        If nothing was left, another rank may have the number of that session by now.
        """
        self.reap()
        session = self._sessions.pop(rank, None)
        if session is not None and session not in self._ranks:
            self._cleaned.add(session)
            self.reap()

    def reap(self) -> None:
        """Take all exits, report those of ranks, and go on with a sweep."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._cleaned.clear()
                if self._sweep:
                    self._sweep = 0
                    self._report("swept", self._sweep_of)
                return
            if not pid:
                break
            if pid in self._ranks:
                self._report_exit(pid, status, usage, time.monotonic_ns())
        if self._cleaned:
            self._cleaned = tree.kill_sessions(self._cleaned)
        if self._sweep == signal.SIGKILL:
            tree.signal_children(self._sweep, set(), set())
        elif self._sweep:
            # Not again to what got it with its rank: a second one may mean an order to hurry.
            tree.signal_children(self._sweep, self._swept, self._groups)

    def _report_exit(self, pid: int, status: int, usage: Any, at: int) -> None:
        rank, began = self._ranks[pid]
        for fd in self._forking.status_of(rank):
            self.read_status(fd)
        del self._pids[rank], self._ranks[pid]
        fault = self._forking.fault_of(rank)
        if fault is not None:
            self._report("failed", rank, began, *fault, at)
        else:
            seconds = usage.ru_utime + usage.ru_stime
            peak = usage.ru_maxrss * 1024
            self._report("exited", rank, began, status, seconds, peak, at)


def kill_all() -> bool:
    """Kill all children, and reap the dead ones without a report; True if none is left."""
    tree.signal_children(signal.SIGKILL, set(), set())
    try:
        while os.wait4(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
