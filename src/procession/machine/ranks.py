"""What is known of the ranks of the current attempt: what their agent tells, and how they ended.

The pidfd of each rank is watched for one reason: to notice that the agent does not tell of a death.
One look, a moment after the first death, is for all until then: in a large group that ends, the
agent has told of them all by that time.

All reading of files that ranks have left is here. It may take as long as a disk hangs, so callers
say whether it is to be done, and in which thread.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from procession.explain import ends
from procession.explain.records import Left, RankRecord
from procession.machine.link import AgentLink
from procession.prepare.resources import Resources
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import Ended, Worker
from procession.system.cgroups import OomWatch
from procession.system.eventloop import EventLoop
from procession.system.files import disk_is_full
from procession.system.processes import status_of_zombie
from procession.values.base import Record
from procession.values.errors import Exit, GroupEnd, RankEnd
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.explain.stacks.text import Stack
    from procession.prepare.results import Frames

NOTHING = Left()
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

    def begin_attempt(self) -> None:
        """Forget the ranks of the attempt before, and expect new ones."""
        if self.records:
            self._oom = OomWatch()
            self.close()
        self.records = [RankRecord(r, attempt=self.life.attempt) for r in range(self.spec.nproc)]
        self.asked = [False] * self.spec.nproc

    def renew(self, rank: int) -> None:
        """Expect a new process of one rank."""
        self.records[rank] = RankRecord(rank, attempt=self.records[rank].attempt + 1)
        self.asked[rank] = False
        self._frames.pop(rank, None)

    # -- what the agent tells

    def take_message(self, kind: str, words: Any, fds: list[int]) -> bool:
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
        frames.take_frame(kind, at, body)
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
        record.refused = record.refused or f"{why}: invalid report [P411]"
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
            groups = self.resources.places.groups
            record.over_limit = groups is not None and groups.killed(record.attempt, rank)
            record.out_of_memory = record.over_limit or self._oom.verdict(peak if killed else None)
        self.forget(rank)

    def _notice_death(self, rank: int) -> None:
        self.loop.forget(self._pidfds[rank])
        if not self._dead:
            self.loop.after(self, UNTOLD_SECONDS, self._look_at_processes)
        self._dead.add(rank)

    def _look_at_processes(self) -> None:
        at, dead = time.monotonic_ns(), self._dead
        self._dead = set()
        for rank in dead:
            pid = self.records[rank].pid
            if pid is not None and (status := status_of_zombie(pid)) is not None:
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


def _left(resources: Resources, record: RankRecord, *, failed: bool, read: bool) -> Left:
    """Give what a rank has left. failed: it has failed. read: read its files."""
    attempt, rank, run_dir = record.attempt, record.rank, resources.run_dir
    if not (failed or run_dir.kept):
        return NOTHING  # as almost always, and there may be thousands of ranks
    out, err = run_dir.log_files(attempt, rank)
    seen, tail = resources.streams.tails.get((rank, "err")), ()
    if failed and err and read:
        from procession.output.rankfiles import end_of
        from procession.output.text import BYTES, last_lines

        tail = tuple(last_lines(end_of(err, BYTES)[1]))
    elif failed and seen is not None and not err:
        tail = tuple(seen.lines())
    if not read:
        return Left(out, err, stderr_tail=tail)
    path = run_dir.error_file(attempt, rank)
    log = out or err
    there = os.path.lexists(path)
    wanted = failed and there and not record.description.get("traceback")
    text, ignored = _read_error_file(path) if wanted else ("", "")
    return Left(
        stdout_log=out,
        stderr_log=err,
        error_file=path if run_dir.kept and there else "",
        traceback=text,
        ignored=ignored,
        stderr_tail=tail,
        disk_full=failed and bool(log) and disk_is_full(log),
    )


def _read_error_file(path: str) -> tuple[str, str]:
    """Give the text of an error file, and why it was ignored, each "" if not."""
    try:
        from procession.output.rankfiles import read_error_file
    except (ImportError, OSError) as e:  # no descriptor is left, to import or to read with
        return "", getattr(e, "strerror", None) or str(e)
    return read_error_file(path)


class KnownEnds(Record):
    """The ends of the ranks of one machine, as far as they are known; for any thread.

    link: to their agent, which may be lost.
    """

    _ranks: Ranks
    _link: AgentLink

    def of_rank(
        self, rank: int, *, read: bool = True, failed: bool = False, stack: Stack | None = None
    ) -> RankEnd:
        """Say how a rank ended. read: read its files. failed: it has, as the caller knows."""
        known, record = self._ranks.life.ranks[rank], self._ranks.records[rank]
        failed = failed or ends.has_failed(known, record)
        return ends.rank_end(
            self._ranks.spec,
            known,
            record,
            _left(self._ranks.resources, record, failed=failed, read=read),
            agent_lost=bool(self._link.lost),
            failed=failed,
            stack=stack,
        )

    def first_failure(self, *, read: bool = True) -> RankEnd | None:
        """Say how the rank ended that failed first, None if none has failed."""
        life = self._ranks.life
        lost = (r for r, known in enumerate(life.ranks) if known.ended is Ended.LOST)
        first = [*life.failures, *lost][:1]
        return self.of_rank(first[0], read=read) if first else None

    def of_group(
        self,
        notes: Sequence[str] = (),
        *,
        read: bool = True,
        stacks: Sequence[Stack] = (),
        stacks_file: str = "",
    ) -> GroupEnd:
        """Say how the group ended. stacks: by the number of the rank in the whole job."""
        first = self._ranks.spec.node.first(self._ranks.spec.nproc)
        at = {stack.rank - first: stack for stack in stacks}
        found = [self.of_rank(r, read=read, stack=at.get(r)) for r in range(self._ranks.spec.nproc)]
        return ends.group_end(
            self._ranks.spec, self._ranks.life, found, notes, self._run_dir, at, stacks_file
        )

    @property
    def _run_dir(self) -> str:
        run_dir = self._ranks.resources.run_dir
        return run_dir.path if run_dir.kept else ""

    @property
    def none_started(self) -> bool:
        """Whether no rank got a process, for one reason."""
        life, records = self._ranks.life, self._ranks.records
        if life.attempt or not life.failures or any(r.pid is not None for r in records):
            return False
        return records[life.failures[0]].start_fault is not None

    def of_start(self, why: str, notes: Sequence[str]) -> GroupEnd:
        """Say once, for all ranks, that none was started; why: the reason."""
        spec, failures = self._ranks.spec, (ends.none_started(why),)
        where = self._run_dir
        end = GroupEnd(spec.name, spec.nproc, failures=failures, run_dir=where, notes=tuple(notes))
        return ends.placed_in_job(end, spec)

    def of_single(self, rank: int) -> GroupEnd:
        """Say how a single rank ended that has failed, as if it were its group."""
        spec, attempt = self._ranks.spec, self._ranks.records[rank].attempt
        failures = (self.of_rank(rank, failed=True),)
        end = GroupEnd(spec.name, spec.nproc, attempt=attempt, failures=failures)
        return ends.placed_in_job(end, spec)
