"""The end of a group: its output is shown, its files are read, and all is put into a `GroupEnd`.

`Outcomes` puts together what was seen of ranks and what they have left. All reading of files that
ranks have left is there. It may take as long as a disk hangs, so callers say whether it is to be
done, and in which thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from procession.driver.journal import Journal
from procession.driver.lastlook import LastLook
from procession.driver.link import Link
from procession.explain import ends
from procession.explain.facts import load_words
from procession.explain.records import Left, RankRecord
from procession.prepare.resources import Resources
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import DeadlineKind, Ended
from procession.system.eventloop import EventLoop
from procession.system.files import disk_is_full
from procession.values.base import Record
from procession.values.errors import GroupEnd, RankEnd
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from procession.explain.stacks.text import Stack

    T = TypeVar("T")

DRAIN_SECONDS = 2.0
LOAD_SECONDS = 0.05  # many short runs are over by then


class Conclusion(Record):
    """Shows what is left of a group's output, and says how it ended. For the loop's thread.

    stall_seconds: the wait for output that is still to be shown ends when its reader has taken
    nothing for so long; None: it does not end. hurry: set when a stop was asked for, which ends
    that wait.
    """

    _spec: Spec
    _life: Lifecycle
    _loop: EventLoop
    _resources: Resources
    _journal: Journal
    _link: Link
    _outcomes: Outcomes
    _last_look: LastLook
    stall_seconds: float | None = DRAIN_SECONDS
    hurry: bool = False
    _drained: bool = False

    def prepare(self) -> None:
        """Have what says how a group failed loaded before it is needed.

        While ranks end, after what is to be done now; or soon after all have begun. Then a failure
        does not wait for it, and a run of weeks can still explain itself when this package was
        replaced meanwhile.
        """
        wait, stacks = LOAD_SECONDS, self._spec.hang.stacks and self._spec.is_python
        if self._life.failures:
            wait, stacks = 0.0, False  # they have been taken by now
        self._loop.after(load_words, wait, lambda: load_words(stacks))

    def draw(self, notes: list[str]) -> GroupEnd:
        """Show what is left to show, and say how the group ended. notes: for the report."""
        self._journal.publish()
        notes = list(notes)
        if not self._drain():
            notes.append("the console did not take all output in time; the rest was cut off [P407]")
        nothing = bool(self._link.lost) and self._outcomes.none_started
        if self._link.lost and not nothing:
            notes.append(
                f"the agent (pid {self._link.server.pid}) was lost ({self._link.lost}); its "
                "ranks were killed with it, and the launcher ended what they had started [P113]"
            )
        if self._life.left_behind:
            notes.append(
                f"something did not go within {self._spec.stop.reap:g} s of SIGKILL, and was left "
                "[P408]"
            )
        notes += self._journal.settle()
        if self._resources.run_dir.kept:
            self._journal.on_disk("looking at", self._resources.run_dir.check)
        notes += self.losses
        if nothing:
            server = f"its agent (pid {self._link.server.pid})"
            return self._outcomes.of_start(f"{server} is gone ({self._link.lost})", notes)
        look = self._last_look
        return self.with_files(
            lambda read: self._outcomes.of_group(
                notes, read=read, stacks=look.stacks, stacks_file=look.file
            )
        )

    def with_files(self, call: Callable[[bool], T]) -> T:
        """Give what `call` gives, which reads files if it gets True; without them if they hang.

        It waits. To be used when no rank is there any more.
        """
        if not self._resources.run_dir.kept:
            return call(True)
        found: list[T] = []
        read = self._journal.on_disk("reading", lambda: found.append(call(True)))
        return found[0] if read else call(False)

    def first_failure(self) -> RankEnd | None:
        """Say how the rank ended that failed first. To be used when no rank is there any more."""
        return self.with_files(lambda read: self._outcomes.first_failure(read=read))

    @property
    def losses(self) -> list[str]:
        """What of output and records is lost, and why, one line each."""
        said, fault = self._resources.streams.faults, self._resources.run_dir.fault
        return [each for each in (*said, self._journal.late, fault) if each]

    def _drain(self) -> bool:
        """Show what is still to be shown; False if it was cut off, by the time or by a stop."""
        streams = self._resources.streams
        if self.hurry:
            return streams.drain(DRAIN_SECONDS)
        # The group is over: what happens to its agent now is no part of it.
        self._link.leave()
        for kind in DeadlineKind:
            self._loop.cancel(kind)

        def drained() -> None:
            self._drained = True

        def look(before: int) -> None:
            if streams.shown == before:
                self.hurry = True
            else:
                await_reader()

        def await_reader() -> None:
            if self.stall_seconds is not None:
                self._loop.after(look, self.stall_seconds, partial(look, streams.shown))

        streams.finish(lambda: self._loop.request(drained))
        await_reader()
        while not (self._drained or self.hurry):
            self._loop.turn()
        self._loop.cancel(look)
        return streams.drain(DRAIN_SECONDS if self._drained else 0.0)


NOTHING = Left()


class Outcomes(Record):
    """The ends of one group and its ranks, as far as they are known; for any thread.

    records: gives what was seen of each rank. lost: says whether the agent was lost.
    """

    _spec: Spec
    _life: Lifecycle
    _resources: Resources
    _records: Callable[[], list[RankRecord]]
    _lost: Callable[[], bool]

    def of_rank(
        self, rank: int, *, read: bool = True, failed: bool = False, stack: Stack | None = None
    ) -> RankEnd:
        """Say how a rank ended. read: read its files. failed: it has, as the caller knows."""
        known, record = self._life.ranks[rank], self._records()[rank]
        failed = failed or ends.has_failed(known, record)
        return ends.rank_end(
            self._spec,
            known,
            record,
            self._left_by(record, failed=failed, read=read),
            agent_lost=self._lost(),
            failed=failed,
            stack=stack,
        )

    def first_failure(self, *, read: bool = True) -> RankEnd | None:
        """Say how the rank ended that failed first, None if none has failed."""
        life = self._life
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
        first = self._spec.node.first(self._spec.nproc)
        at = {stack.rank - first: stack for stack in stacks}
        found = [self.of_rank(r, read=read, stack=at.get(r)) for r in range(self._spec.nproc)]
        run_dir = self._resources.run_dir
        path = run_dir.path if run_dir.kept else ""
        return ends.group_end(self._spec, self._life, found, notes, path, at, stacks_file)

    @property
    def none_started(self) -> bool:
        """Whether no rank got a process, for one reason."""
        records = self._records()
        had = any(record.pid is not None for record in records)
        failures = self._life.failures
        why = bool(failures) and records[failures[0]].start_fault is not None
        return why and self._life.attempt == 0 and not had

    def of_start(self, why: str, notes: Sequence[str]) -> GroupEnd:
        """Say once, for all ranks, that none was started; why: the reason."""
        spec, run_dir = self._spec, self._resources.run_dir
        path = run_dir.path if run_dir.kept else ""
        failures = (ends.none_started(why),)
        end = GroupEnd(spec.name, spec.nproc, failures=failures, run_dir=path, notes=tuple(notes))
        return ends.placed_in_job(end, spec)

    def of_single(self, rank: int) -> GroupEnd:
        """Say how a single rank ended that has failed, as if it were its group."""
        spec, attempt = self._spec, self._records()[rank].attempt
        failures = (self.of_rank(rank, failed=True),)
        end = GroupEnd(spec.name, spec.nproc, attempt=attempt, failures=failures)
        return ends.placed_in_job(end, spec)

    def _left_by(self, record: RankRecord, *, failed: bool, read: bool) -> Left:
        attempt, rank = record.attempt, record.rank
        streams, run_dir = self._resources.streams, self._resources.run_dir
        if not (failed or run_dir.kept or streams.in_files):
            return NOTHING  # as almost always, and there may be thousands of ranks
        out, err = streams.log_paths(attempt, rank)
        tail = streams.stderr_tail(attempt, rank, files=read) if failed else ()
        if not read:
            return Left(out, err, stderr_tail=tail)
        path = run_dir.error_file(attempt, rank)
        log = out or err
        described = bool(record.description.get("traceback"))
        there = os.path.lexists(path)
        wanted = failed and not described and there
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
