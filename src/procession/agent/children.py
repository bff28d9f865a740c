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
    from procession.agent.order import Process


class Children:
    """The children of this process, which has one thread.

    forking: knows what ranks say on their way to their program. exited: takes the process of a
    rank, wait status, CPU seconds, peak memory in bytes, and why it has not reached its program,
    or None. swept: called when a sweep has left nothing.
    """

    def __init__(
        self,
        forking: Forking,
        exited: Callable[[Process, int, float, int, Fault | None], None],
        swept: Callable[[], None],
    ) -> None:
        self._forking = forking
        self._exited = exited
        self._swept_all = swept
        self._there: dict[int, Process] = {}  # those of ranks, by pid, until they are reaped
        self._sweep = 0  # the signal of a sweep in progress
        self._swept: set[int] = set()  # pids that got it
        self._groups: set[int] = set()  # process groups that got the stop signal as ranks
        # Sessions of ranks that start again, in which nothing may be left.
        self._cleaned: set[int] = set()

    def begin_attempt(self) -> None:
        """Take note that another attempt begins."""
        self._groups = set()

    def add(self, process: Process) -> None:
        """Take note of a rank that was started."""
        self._there[process.pid] = process

    def signal(self, number: int, processes: list[Process]) -> tuple[list[Process], int]:
        """Signal the process groups of ranks; gives which were there, and when."""
        self.reap()
        at = time.monotonic_ns()
        reached = [process for process in processes if not process.reaped]
        pids = [process.pid for process in reached]
        if number != signal.SIGKILL:
            self._groups.update(pids)
        signal_groups(pids, number)
        return reached, at

    def hold(self, number: int) -> None:
        """Send SIGSTOP or SIGCONT to the process group of every rank."""
        for pid in self._there:
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

    def clean(self, process: Process) -> None:
        """Kill what a rank that is to start again has left in the session of its last process.

        If nothing was left, another rank may have the number of that session by now.
        """
        self.reap()
        if process.pid not in self._there:
            self._cleaned.add(process.pid)
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
            process = self._there.pop(pid, None)
            if process is not None:
                self._end(process, status, usage)
        if self._cleaned:
            self._cleaned = tree.kill_sessions(self._cleaned)
        if self._sweep == signal.SIGKILL:
            tree.signal_children(self._sweep, set(), set())
        elif self._sweep:
            # Not again to what got it with its rank: a second one may mean an order to hurry.
            tree.signal_children(self._sweep, self._swept, self._groups)

    def _end(self, process: Process, status: int, usage: Any) -> None:
        process.reaped = True
        self._forking.read_status(process.rank)
        seconds, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        self._exited(process, status, seconds, peak, self._forking.fault_of(process.rank))


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
