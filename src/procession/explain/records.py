"""What the launcher has seen of a rank, and what the rank has left in files: plain data."""

from __future__ import annotations

import signal
from types import MappingProxyType

from procession.values.base import Record, Value
from procession.values.exit import UNKNOWN_EXIT, Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from procession.prepare.results import Report, ResultReader

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
NONE_SENT: Mapping[int, int] = MappingProxyType({})


class RankRecord(Record):
    """What was seen of a rank in this attempt; -1, None and 0: nothing yet.

    Times are in nanoseconds of the monotonic clock.

    attempt: how often the rank was started before. report: of its outcome. torn: a report was
    begun, and not completed. refused: why its reports are not believed, or "". signals: those that
    the launcher had sent, each with the time when it asked first; group_signalled: its process
    group got one of them. hung: why it is taken for hung, or "". start_fault: what could not be
    done to start it, errno, and why, in words. doubt: by how much the exit may have been earlier
    than `exited_at`. over_limit: the kernel killed it at its own limit of memory.
    """

    rank: int
    attempt: int = 0
    pid: int | None = None
    report: Report | None = None
    torn: bool = False
    refused: str = ""
    signals: Mapping[int, int] = NONE_SENT
    group_signalled: bool = False
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


class Silence(Record):
    """When a channel ended without a report: between `after` and `until`.

    seen: when this was noticed. late: the loop was busy then, and did not wait for it, or did not
    watch it yet.
    """

    after: int
    until: int
    seen: int
    late: bool = False


class HeldSignal(Value):
    """A signal that was asked for at a time; only_caught: for a process with a handler for it."""

    number: int
    at: int
    only_caught: bool


class Sources(Record):
    """The sources of one rank's events.

    reader: of its outcome channel; watched_at: watched since then. pidfd: -1 for none. silence: set
    when the channel has ended without a report. asked: the forkserver was asked for the rank. held:
    signals for a process that may have begun, of which the forkserver has not told yet. dead_by:
    when the pidfd was seen to show its end, 0 while it was not. lived_at: when it was seen to live
    last, 0 for never. caught: the signals that it had handlers for then, as bits.
    """

    asked: bool = False
    held: tuple[HeldSignal, ...] = ()
    reader: ResultReader | None = None
    watched_at: int = 0
    pidfd: int = -1
    silence: Silence | None = None
    dead_by: int = 0
    lived_at: int = 0
    caught: int = 0

    def may_have_crashed(self, number: int | None) -> bool:
        """Whether a rank that died of this signal may have got it before it was seen to live.

        A crash is written down first, which may take milliseconds (`faulthandler`, core files).
        """
        if number is None or number not in CRASHES:
            return False
        return not self.caught >> (number - 1) & 1

    def was_crashing(self, number: int | None) -> bool:
        """Whether it had: `faulthandler` takes away the handler of the signal that it handles."""
        others = any(self.caught >> (n - 1) & 1 for n in CRASHES)
        return bool(self.lived_at) and others and self.may_have_crashed(number)
