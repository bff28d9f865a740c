"""What the launcher has seen of a rank, and what the rank has left in files: plain data."""

from __future__ import annotations

from procession.values.base import Record, Value
from procession.values.errors import UNKNOWN_EXIT, Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from procession.prepare.results import Report


class RankRecord(Record):
    """What was seen of a rank in this attempt; -1, None and 0: nothing yet.

    Times are in nanoseconds of the monotonic clock.

    attempt: how often the rank was started before. report: of its outcome. torn: a report was
    begun, and not completed. refused: why its reports are not believed, or "". signals: those that
    it was sent, each with the time of the first. hung: why it is taken for hung, or "".
    start_fault: what could not be done to start it, errno, and why, in words. doubt: by how much
    the exit may have been earlier than `exited_at`. over_limit: the kernel killed it at its own
    limit of memory. unshown: lines that the console did not show, since the group was being ended.
    unshown_errors: exceptions that they name, in words.
    """

    rank: int
    attempt: int = 0
    pid: int | None = None
    report: Report | None = None
    torn: bool = False
    refused: str = ""
    signals: Mapping[int, int] = {}
    hung: str = ""
    exit: Exit = UNKNOWN_EXIT
    start_fault: tuple[str, int, str] | None = None
    started_at: int = 0
    exited_at: int = 0
    doubt: int = 0
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    out_of_memory: bool | None = None
    over_limit: bool = False
    unshown: int = 0
    unshown_errors: tuple[str, ...] = ()

    @property
    def description(self) -> dict[str, Any]:
        """How the rank described its failure; `{}` if it did not."""
        return self.report.description if self.report is not None else {}

    @property
    def child_killed(self) -> bool:
        """Whether it failed because SIGKILL has ended a child, or a signal that nobody told."""
        described = self.description
        killed = "SIGKILL" in described.get("children", "")
        return killed or described.get("type", "").endswith(".BrokenProcessPool")


class Left(Value):
    """What a rank has left in files, as far as these were read; "" and () for nothing.

    stdout_log, stderr_log, error_file: paths. traceback: what the error file holds. ignored: why
    that was not read. disk_full: no space is left on the disk of its logs.
    """

    stdout_log: str = ""
    stderr_log: str = ""
    error_file: str = ""
    traceback: str = ""
    ignored: str = ""
    stderr_tail: tuple[str, ...] = ()
    disk_full: bool = False
