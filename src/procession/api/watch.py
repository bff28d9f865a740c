"""What is known of a group's ranks, for objects that look like processes.

`subprocess` and `multiprocessing` have objects that stand for a process: with a number, an exit
code, and ways to wait and to send signals. `RankProcess` is such an object for a rank. `Watch`
hears the group's events, and knows for each rank whether it has ended and how. It has no reference
to the group, so that neither keeps the other alive.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable

from procession.group.group import Group
from procession.values.errors import UNKNOWN_EXIT
from procession.values.events import Event


class Watch:
    """What is known of the ranks of a group that starts none of them again.

    pids: by rank, of those that have or had a process. exits: exit codes by rank, minus the signal
    for those that a signal ended. started: ranks that reached their program. failed: ranks that
    failed, or were ended. unstarted: a rank could not be started. over: the group has ended.

    unknown: the exit code of a rank whose exit status is not known. ended: called with each
    rank that has ended, in the driver's thread.
    """

    def __init__(
        self, group: Group, unknown: int, ended: Callable[[int], object] | None = None
    ) -> None:
        self.pids: dict[int, int] = {}
        self.exits: dict[int, int] = {}
        self.started: set[int] = set()
        self.failed: set[int] = set()
        self.unstarted = self.over = False
        self._group = weakref.ref(group)
        self._unknown = unknown
        self._ended = ended
        self._changed = threading.Condition()
        group.hear(self._take)
        group.when_over(self._end)  # also if its driver failed, of which no event tells

    def _end(self) -> None:
        with self._changed:
            self.over = True
            for rank in sorted(self.pids.keys() - self.exits.keys()):
                self._exited(rank, self._unknown)
            self._changed.notify_all()

    def _exited(self, rank: int, code: int) -> None:
        self.started.add(rank)
        self.exits[rank] = code
        if code != 0:
            self.failed.add(rank)
        if self._ended is not None:
            self._ended(rank)

    def _take(self, event: Event) -> None:
        rank = event.rank
        with self._changed:
            if rank is None:
                self.over = event.kind in ("succeeded", "failed", "stopped")
            elif event.kind == "spawned" and event.pid is not None:
                self.pids[rank] = event.pid
            elif event.kind in ("ready", "reported"):
                self.started.add(rank)
                if event.kind == "reported" and event.detail:  # names what was raised
                    self.failed.add(rank)
            elif event.kind in ("spawn_failed", "cancelled", "start_deadline"):
                self.unstarted = True
            elif event.kind == "exited":
                self._exited(rank, self._exit_code(rank))
            self._changed.notify_all()

    def _exit_code(self, rank: int) -> int:
        group = self._group()
        found = (None if group is None else group.exit_of(rank)) or UNKNOWN_EXIT
        return self._unknown if found.returncode is None else found.returncode

    def wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition()`, which may look at all that is known here; tell whether it is.

        timeout: seconds; None waits for ever, and 0 or less does not wait.
        """
        with self._changed:
            return self._changed.wait_for(condition, timeout)


class RankProcess:
    """A rank, with what `subprocess` and `multiprocessing` ask of a process."""

    def __init__(self, group: Group, watch: Watch, rank: int) -> None:
        self.group = group
        self.watch = watch
        self._rank = rank

    @property
    def pid(self) -> int:
        """The process's number; stays when it has ended."""
        return self.watch.pids.get(self._rank) or self.group.pids()[self._rank]

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self.poll()

    def poll(self, flag: int = 0) -> int | None:
        """Give `returncode`. flag: without a meaning here."""
        del flag
        return self.ended(0)

    def ended(self, timeout: float | None) -> int | None:
        """Wait for the end; give the exit code, None if it has not ended after `timeout`."""
        watch, rank = self.watch, self._rank
        watch.wait(lambda: rank in watch.exits or watch.over, timeout)
        return watch.exits.get(rank)

    def send_signal(self, sig: int) -> None:
        """Send a signal to the process; what comes of it counts as the rank's own doing."""
        self.group.send_signal(self._rank, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)
