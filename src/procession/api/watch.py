"""What is known of a group's ranks, for `multiprocessing`'s objects that stand for processes.

`Watch` hears the group's events, and knows for each rank whether it has ended and how. It has no
reference to the group, so that neither keeps the other alive. `RankPopen` is what a process object
of `multiprocessing` has for a rank.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence

from procession.group.group import Group
from procession.values.errors import UNKNOWN_EXIT
from procession.values.events import Event

UNKNOWN_STATUS = 255  # what `multiprocessing` shows for a process whose exit status is not known


class Sentinel:
    """A descriptor that can be read from when a rank has ended; it is closed with this object."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.close = weakref.finalize(self, os.close, self.fd)
        self.close.atexit = False  # exit handlers may wait for it

    def ring(self) -> None:
        """Make it readable."""
        if self.close.alive:
            os.eventfd_write(self.fd, 1)


class Watch:
    """What is known of the ranks of a group that starts none of them again.

    pids: by rank, of those that have or had a process. exits: exit codes by rank, minus the signal
    for those that a signal ended. started: ranks that reached their program. failed: ranks that
    failed, or were ended. unstarted: a rank could not be started. over: the group has ended.

    sentinels: by rank; each is let go when its rank has ended.
    """

    def __init__(self, group: Group, sentinels: Sequence[Sentinel]) -> None:
        self._sentinels = dict(enumerate(sentinels))
        self.pids: dict[int, int] = {}
        self.exits: dict[int, int] = {}
        self.started: set[int] = set()
        self.failed: set[int] = set()
        self.unstarted = self.over = False
        self._group = weakref.ref(group)
        self._changed = threading.Condition()
        group.hear(self._take_event)
        group.when_over(self._end)  # also if its driver failed, of which no event tells

    def _end(self) -> None:
        with self._changed:
            self.over = True
            for rank in sorted(self.pids.keys() - self.exits.keys()):
                self._exited(rank, UNKNOWN_STATUS)
            self._changed.notify_all()

    def _exited(self, rank: int, code: int) -> None:
        self.started.add(rank)
        self.exits[rank] = code
        if code != 0:
            self.failed.add(rank)
        self._sentinels.pop(rank).ring()

    def _take_event(self, event: Event) -> None:
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
        return UNKNOWN_STATUS if found.returncode is None else found.returncode

    def wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition()`, which may look at all that is known here; tell whether it is.

        timeout: seconds; None waits for ever, and 0 or less does not wait.
        """
        with self._changed:
            return self._changed.wait_for(condition, timeout)


class RankPopen:
    """What a `multiprocessing.Process` asks about a rank: exit code, sentinel, ways to signal.

    A process object asks a "popen" of its own; this one asks the group. So the processes that we
    hand out are `multiprocessing`'s, with all that they do.
    """

    def __init__(self, group: Group, watch: Watch, rank: int, sentinel: Sentinel) -> None:
        self.group = group
        self.watch = watch
        self._rank = rank
        self._sentinel = sentinel

    def itself(self, process: object) -> RankPopen:
        """Give this object, where `process.start()` would make one."""
        del process
        return self

    @property
    def pid(self) -> int:
        """The process's number; stays when it has ended."""
        return self.watch.pids.get(self._rank) or self.group.pids()[self._rank]

    @property
    def sentinel(self) -> int:
        """The descriptor that can be read from when the rank has ended."""
        return self._sentinel.fd

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self.wait(0)

    def poll(self, flag: int = 0) -> int | None:
        """Give `returncode`. flag: without a meaning here."""
        del flag
        return self.wait(0)

    def wait(self, timeout: float | None) -> int | None:
        """Wait for the end; give the exit code, None if it has not ended after `timeout`."""
        watch, rank = self.watch, self._rank
        watch.wait(lambda: rank in watch.exits or watch.over, timeout)
        return watch.exits.get(rank)

    def interrupt(self) -> None:
        """Send SIGINT; what comes of a signal counts as the rank's own doing."""
        self.group.send_signal(self._rank, signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.group.send_signal(self._rank, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.group.send_signal(self._rank, signal.SIGKILL)

    def close(self) -> None:
        """Close the sentinel."""
        self._sentinel.close()
