"""From what was seen of the ranks of one machine, and what they have left, to how they ended.

All reading of files that ranks have left is here. It may take as long as a disk hangs, so callers
say whether it is to be done, and in which thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from procession.explain import ends
from procession.explain.records import Left, RankRecord
from procession.machine.link import Link
from procession.machine.ranks import Ranks
from procession.prepare.resources import Resources
from procession.rules.tables import Ended
from procession.system.files import disk_is_full
from procession.values.base import Record
from procession.values.errors import GroupEnd, RankEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.explain.stacks.text import Stack


NOTHING = Left()


def _left(resources: Resources, record: RankRecord, *, failed: bool, read: bool) -> Left:
    """Give what a rank has left. failed: it has failed. read: read its files."""
    attempt, rank = record.attempt, record.rank
    streams, run_dir = resources.streams, resources.run_dir
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

    link: to their agent, which may be lost.
    """

    _ranks: Ranks
    _link: Link

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
        run_dir = self._run_dir
        return ends.group_end(
            self._ranks.spec, self._ranks.life, found, notes, run_dir, at, stacks_file
        )

    @property
    def _run_dir(self) -> str:
        run_dir = self._ranks.resources.run_dir
        return run_dir.path if run_dir.kept else ""

    @property
    def none_started(self) -> bool:
        """Whether no rank got a process, for one reason."""
        records = self._ranks.records
        had = any(record.pid is not None for record in records)
        failures = self._ranks.life.failures
        why = bool(failures) and records[failures[0]].start_fault is not None
        return why and self._ranks.life.attempt == 0 and not had

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
