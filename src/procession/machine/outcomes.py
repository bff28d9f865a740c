"""From what was seen of the ranks of one machine, and what they have left, to how they ended.

All reading of files that ranks have left is here. It may take as long as a disk hangs, so callers
say whether it is to be done, and in which thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from procession.explain import ends
from procession.explain.records import Left, RankRecord
from procession.prepare.resources import Resources
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import Ended
from procession.system.files import disk_is_full
from procession.values.base import Record
from procession.values.errors import GroupEnd, RankEnd
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.explain.stacks.text import Stack


NOTHING = Left()


class Leavings(Record):
    """What the ranks of one machine leave; for any thread."""

    _resources: Resources

    @property
    def run_dir(self) -> str:
        """The directory of the run, "" where none is kept."""
        run_dir = self._resources.run_dir
        return run_dir.path if run_dir.kept else ""

    def of(self, record: RankRecord, *, failed: bool, read: bool) -> Left:
        """Give what a rank has left. failed: it has failed. read: read its files."""
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


class Outcomes(Record):
    """The ends of the ranks of one machine, as far as they are known; for any thread.

    records: gives what was seen of each rank. lost: says whether the agent was lost.
    """

    _spec: Spec
    _life: Lifecycle
    _left: Leavings
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
            self._left.of(record, failed=failed, read=read),
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
        run_dir = self._left.run_dir
        return ends.group_end(self._spec, self._life, found, notes, run_dir, at, stacks_file)

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
        spec, failures = self._spec, (ends.none_started(why),)
        where = self._left.run_dir
        end = GroupEnd(spec.name, spec.nproc, failures=failures, run_dir=where, notes=tuple(notes))
        return ends.placed_in_job(end, spec)

    def of_single(self, rank: int) -> GroupEnd:
        """Say how a single rank ended that has failed, as if it were its group."""
        spec, attempt = self._spec, self._records()[rank].attempt
        failures = (self.of_rank(rank, failed=True),)
        end = GroupEnd(spec.name, spec.nproc, attempt=attempt, failures=failures)
        return ends.placed_in_job(end, spec)
