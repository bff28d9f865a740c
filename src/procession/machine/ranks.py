"""What is known of the ranks of the current attempt, from what their agent has told.

The pidfd of each rank is watched for one reason: to notice that the agent does not tell of a death.
One look, a moment after the first death, is for all until then: in a large group that ends, the
agent has told of them all by that time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from procession.explain.records import RankRecord
from procession.prepare.resources import Resources
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import Worker
from procession.system.cgroups import OomWatch
from procession.system.eventloop import EventLoop
from procession.system.processes import status_of_zombie
from procession.values.exit import Exit
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.prepare.results import Frames

UNTOLD_SECONDS = 1.0  # from a death until the agent is asked for it


class Ranks:
    """The ranks of the current attempt, by number. For the loop's thread.

    untold: called when one is dead, as the kernel says, and its agent has not told of it.

    Others that work on the same ranks use its spec, life, loop and resources.

    records: what was seen of each. asked: whether the agent was asked for it. untold: of those
    whose death it has not told, when that was, and the wait status.
    """

    def __init__(
        self,
        spec: Spec,
        life: Lifecycle,
        loop: EventLoop,
        resources: Resources,
        untold: Callable[[], object],
    ) -> None:
        self.records: list[RankRecord] = []
        self.asked: list[bool] = []
        self.spec = spec
        self.life = life
        self.resources = resources
        self._frames: dict[int, Frames] = {}  # of those that have sent something
        self._pidfds: dict[int, int] = {}
        self._refused_one = False
        self._oom = OomWatch()
        self.loop = loop
        self._tell = untold
        self.untold: dict[int, tuple[int, int]] = {}
        self._dead: set[int] = set()  # as the kernel says, and not looked at yet

    def begin(self) -> None:
        """Forget the ranks of the attempt before, and expect new ones."""
        if self.records:
            self._oom = OomWatch()
            self.close()
        numbers = range(self.spec.nproc)
        self.records = [RankRecord(rank, attempt=self.life.attempt) for rank in numbers]
        self.asked = [False] * len(numbers)

    def renew(self, rank: int) -> None:
        """Expect a new process of one rank."""
        self.records[rank] = RankRecord(rank, attempt=self.records[rank].attempt + 1)
        self.asked[rank] = False
        self._frames.pop(rank, None)

    # -- what the agent tells

    def hear(self, kind: str, words: Any, fds: list[int]) -> bool:
        """Take a message, if it is about what ranks do; see `agent.protocol`."""
        if kind == "process":
            rank, pid, at, sent = words
            self.process(rank, pid, at, fds.pop(0) if sent >= 0 else -1)
        elif kind == "file":
            rank, sent, at, size = words
            self.file(rank, sent, at, size, fds.pop(0))
        elif kind in ("piece", "frame", "fault", "refused", "signalled", "gone"):
            getattr(self, kind)(*words)
        else:
            return False
        return True

    def fault(self, rank: int, stage: str, number: int, text: str) -> None:
        """Take note of why a rank did not reach its program."""
        self.records[rank].start_fault = stage, number, text

    def process(self, rank: int, pid: int, at: int, pidfd: int) -> None:
        """Take note of a new process. pidfd: -1 if none could be had."""
        record = self.records[rank]
        record.pid, record.started_at = pid, at
        if pidfd >= 0:
            self._pidfds[rank] = pidfd
            self.loop.watch(pidfd, lambda: self._notice_death(rank))

    def signalled(self, number: int, reached: list[int], at: int) -> None:
        """Take note that ranks were sent a signal."""
        for record in (self.records[rank] for rank in reached):
            record.signals = {number: at, **record.signals}

    def piece(self, rank: int, data: bytes) -> None:
        """Take a part of what a rank sends."""
        self._frames_of(rank).add(data)

    def frame(self, rank: int, kind: bytes, at: int, body: bytes | None) -> None:
        """Take a frame that a rank has sent."""
        frames = self._frames_of(rank)
        frames.take(kind, at, body)
        self._told(rank, frames)

    def file(self, rank: int, kind: bytes, at: int, size: int, fd: int) -> None:
        """Take a frame that a rank has sent in a memory file."""
        frames = self._frames_of(rank)
        frames.take_file(kind, at, size, fd)
        self._told(rank, frames)

    def _frames_of(self, rank: int) -> Frames:
        from procession.prepare.results import Frames  # commands send none

        return self._frames.setdefault(rank, Frames())

    def _told(self, rank: int, frames: Frames) -> None:
        self.records[rank].report = frames.report
        if frames.fault:
            self.refused(rank, frames.fault)

    def refused(self, rank: int, why: str) -> None:
        """Take note that what a rank sends is not believed. Once for a group, or a thousand may."""
        record = self.records[rank]
        record.refused = record.refused or f"{why}: what it told is not believed [P411]"
        if self._refused_one:
            return
        self._refused_one = True
        import logging

        number = self.spec.node.first(self.spec.nproc) + rank
        log = logging.getLogger("procession")
        log.warning("procession: rank %d: %s", number, record.refused)

    def gone(
        self, rank: int, status: int, seconds: float, peak: int, at: int, doubt: int, torn: bool
    ) -> None:
        """Take note of how a rank has ended."""
        record = self.records[rank]
        record.exit = Exit.from_wait_status(status)
        record.cpu_seconds, record.peak_memory = seconds, peak
        record.exited_at, record.doubt, record.torn = at, doubt, torn
        state = self.life.ranks[rank].state
        killed = record.exit.signal == signal.SIGKILL and state is not Worker.KILLING
        if killed or record.child_killed:
            record.over_limit = self.resources.places.over_limit(record.attempt, rank)
            record.out_of_memory = record.over_limit or self._oom.verdict(peak if killed else None)
        self.forget(rank)

    def _notice_death(self, rank: int) -> None:
        self.loop.forget(self._pidfds[rank])
        if not self._dead:
            self.loop.after(self, UNTOLD_SECONDS, self._look)
        self._dead.add(rank)

    def _look(self) -> None:
        at, dead = time.monotonic_ns(), self._dead
        self._dead = set()
        for rank in dead:
            pid = self.records[rank].pid
            status = status_of_zombie(pid) if pid is not None else None
            if status is not None:
                self.untold[rank] = at, status
        if dead:
            self._tell()

    # -- the end

    def forget(self, rank: int) -> None:
        """Watch a rank no longer."""
        self.untold.pop(rank, None)
        self._dead.discard(rank)
        pidfd = self._pidfds.pop(rank, -1)
        if pidfd >= 0:
            self.loop.forget(pidfd)
            os.close(pidfd)

    def close(self) -> None:
        """Close all descriptors, and drop what ranks have sent: their records have it."""
        self._frames.clear()
        for rank in list(self._pidfds):
            self.forget(rank)
