"""`RunProcsResult`: how ranks ended; and how it is made from what their group reports."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from procession.elastic.errors.failure import NOT_AVAILABLE, ProcessFailure
from procession.explain.report import details, headline
from procession.values.errors import RankEnd


@dataclass
class RunProcsResult:
    """How ranks that were started together ended, all by local rank.

    return_values: of functions; None for programs. Empty if a rank failed.
    failures: ranks that failed by themselves, the one that failed first being the first. After
        `close` of ranks that still ran: those that it ended.
    stdouts, stderrs: paths of log files, "" where there is none.
    """

    return_values: dict[int, Any] = field(default_factory=dict[int, Any])
    failures: dict[int, ProcessFailure] = field(default_factory=dict[int, ProcessFailure])
    stdouts: dict[int, str] = field(default_factory=dict[int, str])
    stderrs: dict[int, str] = field(default_factory=dict[int, str])

    def is_failed(self) -> bool:
        """Whether there are failures."""
        return bool(self.failures)


def failure_of(end: RankEnd, nproc: int, error_file: str) -> ProcessFailure:
    """Describe a rank that failed by its error file, and without one by what the group knows."""
    failure = ProcessFailure(
        local_rank=end.rank,
        pid=-1 if end.pid is None else end.pid,
        exitcode=exit_code(end),
        error_file=error_file,
    )
    if failure.error_file == NOT_AVAILABLE:
        failure.timestamp = _wall_clock(end.happened_at)
        if failure.exitcode >= 0:
            failure.message = "\n".join([headline(end, nproc), *details(end)])
    return failure


def exit_code(end: RankEnd) -> int:
    """Give the exit code of a rank, or minus its signal; 1 where it is not known."""
    if end.announced is not None:
        return end.announced
    return 1 if end.exit.returncode is None else end.exit.returncode


def _wall_clock(at: int) -> int:
    """Turn a time of the monotonic clock, in nanoseconds, into whole seconds since 1970."""
    return int(time.time() - (time.monotonic_ns() - at) / 1e9) if at else int(time.time())
