"""Ranks as `multiprocessing` sees processes: with exit code, sentinel, `join` and `terminate`.

Theory of operation. A `multiprocessing.Process` asks a "popen" object of its own about its process.
`RankPopen` is such an object that asks the group, so that the processes we hand out are
`multiprocessing`'s own, with all that they do. `Watch` is told by the group what happens, and knows
for each rank whether it ended and how; it holds nothing of the group, so that neither keeps the
other alive.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence

from procession.events import Event
from procession.exit import Exit
from procession.group import Group

UNKNOWN_STATUS = 255  # what `multiprocessing` itself shows where nobody learned the exit status


class Sentinel:
    """A descriptor that can be read from when a rank has ended; it goes with this object."""

    def __init__(self) -> None:
        self.fd = -1  # where there is none left
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        """Make it readable."""
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        """Close it."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class Watch:
    """What is known of a group's ranks.

    pids: by rank, of those that have or had a process. exits: exit codes by rank, minus the signal
    for those that a signal ended. started: ranks that reached their program. failed: ranks that
    failed, or were ended. killed: ranks that were sent SIGKILL by the group. unstarted: a rank
    could not be started. over: the group has ended.
    """

    def __init__(self, sentinels: Sequence[Sentinel], exit_of: Callable[[int], Exit]) -> None:
        self.pids: dict[int, int] = {}
        self.exits: dict[int, int] = {}
        self.started: set[int] = set()
        self.failed: set[int] = set()
        self.killed: set[int] = set()
        self.unstarted = self.over = False
        self._sentinels = dict(enumerate(sentinels))  # of ranks that have not ended
        self._exit_of = exit_of
        self._changed = threading.Condition()

    def take(self, event: Event) -> None:
        """Be told what happened."""
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
            elif event.kind == "kill_sent":
                self.killed.add(rank)
            elif event.kind == "exited":
                code = self._exit_of(rank).returncode
                self.started.add(rank)
                self.exits[rank] = UNKNOWN_STATUS if code is None else code
                if code != 0:
                    self.failed.add(rank)
                self._sentinels.pop(rank).ring()
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition()`, which may look at all that is known here; tell whether it is.

        timeout: seconds; None waits for ever, and 0 or less does not wait.
        """
        with self._changed:
            return self._changed.wait_for(condition, timeout)


class RankPopen:
    """What a `multiprocessing.Process` asks about a rank."""

    def __init__(self, group: Group, watch: Watch, rank: int, sentinel: Sentinel) -> None:
        self.group = group
        self.watch = watch
        self._rank = rank
        self._sentinel = sentinel
        self.pid = watch.pids[rank]

    def itself(self, process: object) -> RankPopen:
        """Be what `process.start()` makes."""
        del process
        return self

    @property
    def sentinel(self) -> int:
        """The descriptor that can be read from when the rank has ended."""
        return self._sentinel.fd

    @property
    def returncode(self) -> int | None:
        """The exit code."""
        return self.poll()

    def poll(self, flag: int = 0) -> int | None:
        """Give the exit code, None while there is none."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end; give the exit code, None if it has not ended after `timeout`."""
        watch, rank = self.watch, self._rank
        watch.wait(lambda: rank in watch.exits or watch.over, timeout)
        return watch.exits.get(rank)

    def terminate(self) -> None:
        """Send SIGTERM to the rank."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the rank."""
        self._send(signal.SIGKILL)

    def interrupt(self) -> None:
        """Send SIGINT to the rank."""
        self._send(signal.SIGINT)

    def _send(self, number: int) -> None:
        self.group.send_signal(self._rank, number)

    def close(self) -> None:
        """Give up the sentinel."""
        self._sentinel.close()


def remaining(timeout: float | None) -> Callable[[], float | None]:
    """Give a function that tells how much is left of `timeout` seconds from now."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else max(0.0, end - time.monotonic())
