"""The processes below the agent: signalling them, reaping them, and ending what is left.

Theory of operation. Its children are the ranks, and whatever ranks have orphaned: the agent is
a subreaper. An exit is taken by `waitpid` alone, and told of if it was a rank's. Before each round
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

from procession.system import plain as signal
from procession.system import tree
from procession.system.processes import signal_group, signal_groups

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from procession.agent.forking import Fault, Forking


class Children:
    """The children of this process, which has one thread.

    forking: knows what ranks say on their way to their program. exited: takes the rank, wait
    status, CPU seconds, peak memory in bytes, and why it has not reached its program, or None.
    swept: called when a sweep has left nothing.
    """

    def __init__(
        self,
        forking: Forking,
        exited: Callable[[int, int, float, int, Fault | None], None],
        swept: Callable[[], None],
    ) -> None:
        self._forking = forking
        self._exited = exited
        self._swept_all = swept
        self._pids: dict[int, int] = {}  # rank -> pid, until it is reaped
        self._ranks: dict[int, int] = {}  # pid -> rank, until then
        self._sessions: dict[int, int] = {}  # rank -> the session of the process it had last
        self._sweep = 0  # the signal of a sweep in progress
        self._swept: set[int] = set()  # pids that got it
        self._groups: set[int] = set()  # process groups that got the stop signal as ranks
        # Sessions of ranks that start again, in which nothing may be left.
        self._cleaned: set[int] = set()

    def begin(self) -> None:
        """Take note that another attempt begins."""
        self._groups = set()

    def add(self, rank: int, pid: int) -> None:
        """Take note of a rank that was started."""
        self._pids[rank], self._ranks[pid] = pid, rank
        self._sessions[rank] = pid

    def signal_rank(self, rank: int, number: int) -> None:
        """Signal the process of a rank alone, if it is there."""
        pid = self._pids.get(rank)
        try:
            if pid is not None:
                os.kill(pid, number)
        except OSError:
            pass  # it has become another user

    def signal_ranks(self, number: int, ranks: list[int]) -> tuple[list[int], int]:
        """Signal the process groups of ranks; gives which were there, and when."""
        self.reap()
        at = time.monotonic_ns()
        reached = [rank for rank in ranks if rank in self._pids]
        pids = [self._pids[rank] for rank in reached]
        if number != signal.SIGKILL:
            self._groups.update(pids)
        signal_groups(pids, number)
        return reached, at

    def hold(self, number: int) -> None:
        """Send SIGSTOP or SIGCONT to the process group of every rank."""
        for pid in self._pids.values():
            try:
                signal_group(pid, number)
            except OSError:
                pass  # gone

    def sweep(self, number: int) -> None:
        """Signal all children, those to come as well, and tell when none is left.

        Ranks that got the stop signal already do not get another one; except from a second sweep
        that begins before the first has ended.
        """
        if self._sweep:  # a second one, in a hurry: for all
            self._groups = set()
        self._sweep, self._swept = number, set()
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
        """Take all exits, tell of those of ranks, and go on with a sweep."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._cleaned.clear()
                if self._sweep:
                    self._sweep = 0
                    self._swept_all()
                return
            if not pid:
                break
            rank = self._ranks.pop(pid, None)
            if rank is not None:
                self._end(rank, status, usage)
        if self._cleaned:
            self._cleaned = tree.kill_sessions(self._cleaned)
        if self._sweep == signal.SIGKILL:
            tree.signal_children(self._sweep, set(), set())
        elif self._sweep:
            # Not again to what got it with its rank: a second one may mean an order to hurry.
            tree.signal_children(self._sweep, self._swept, self._groups)

    def _end(self, rank: int, status: int, usage: Any) -> None:
        self._forking.read_status(rank)
        del self._pids[rank]
        seconds, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        self._exited(rank, status, seconds, peak, self._forking.fault_of(rank))


def kill_all() -> bool:
    """Kill all children, and reap the dead ones without a report; True if none is left."""
    tree.signal_children(signal.SIGKILL, set(), set())
    return reap_all()


def reap_all() -> bool:
    """Reap the dead children without a report; True if none is left."""
    try:
        while os.wait4(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
