"""How processes, ranks and groups end, and what procession raises for it.

A process ends as `wait(2)` reports it; a rank, by more than that; a group, by how its ranks ended.
"""

from __future__ import annotations

import enum
import os
import signal as signals
from functools import cache

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HUNG_CODE = 124  # as of `timeout` of the coreutils


@cache
def signal_name(number: int) -> str:
    """Give the name of a signal: `SIGKILL`, `SIGRTMIN+3`, or `signal 99` if it has none."""
    try:
        return signals.Signals(number).name
    except ValueError:
        if signals.SIGRTMIN < number < signals.SIGRTMAX:
            return f"SIGRTMIN+{number - signals.SIGRTMIN}"
        return f"signal {number}"


@cache
def is_signal(number: int) -> bool:
    """Whether there is a signal of this number."""
    return number in signals.valid_signals()


class Exit(Value):
    """The exit status of a process.

    code: the exit code, None if a signal ended it or if the status is not known.
    signal: the number of the signal that ended it, else None.
    core: whether the kernel says that it dumped core.

    Both None: the status is unknown.
    """

    code: int | None = None
    signal: int | None = None
    core: bool = False

    @classmethod
    @cache  # thousands of ranks end alike
    def from_wait_status(cls, status: int) -> Exit:
        """Read the status of `waitpid(2)`."""
        if os.WIFSIGNALED(status):
            return cls(signal=os.WTERMSIG(status), core=os.WCOREDUMP(status))
        return cls(code=os.WEXITSTATUS(status))

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.code == 0

    @property
    def known(self) -> bool:
        """Whether the status is known."""
        return self.code is not None or self.signal is not None

    @property
    def shell_code(self) -> int:
        """What a shell would show: the exit code, or 128 + the signal; 1 if it is not known."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.code is None else self.code

    @property
    def returncode(self) -> int | None:
        """What `subprocess` and `multiprocessing` would show: the code, or minus the signal."""
        return -self.signal if self.signal is not None else self.code

    def __str__(self) -> str:
        """Name it: `exit code 3`, `SIGSEGV (signal 11), core dumped`."""
        if self.signal is not None:
            core = ", core dumped" if self.core else ""
            return f"{signal_name(self.signal)} (signal {self.signal}){core}"
        return "unknown exit status" if self.code is None else f"exit code {self.code}"


UNKNOWN_EXIT = Exit()


class Outcome(enum.Enum):
    """How a rank ended."""

    RETURNED = "returned"
    EXITED = "exited"
    RAISED = "raised an exception"
    INTERRUPTED = "was interrupted (KeyboardInterrupt)"
    UNPICKLABLE = "returned a value that cannot be pickled"
    NO_VALUE = "ended without returning"
    TORN_VALUE = "died while it sent its value"
    SIGNALLED = "was killed by a signal"
    NOT_STARTED = "could not be started"
    CANCELLED = "was not started"
    HUNG = "hung"
    LOST = "could not be ended"
    NODE_LOST = "was lost with its node"
    ORPHANED = "was killed when its agent was lost"
    UNKNOWN = "vanished: its exit status is not known"


SIMULTANEOUS = 1_000_000  # nanoseconds: the order of failures closer together is not known


class RankEnd(Value):
    """All that is known about the end of one rank.

    Times are nanoseconds of the machine's monotonic clock; memory is in bytes.

    rank: the rank; where several machines have a part of the job, its local rank.
    pid: its process, None if it had none.
    outcome: how it ended. exit: its exit status.
    announced: the exit code that it reported, if it was ended before it could exit; else None.
    sent: the signals that its group sent it, None if that is not known.
    type_name, message: of its exception, else "".
    traceback: its traceback as Python would print it, else "".
    started_at: when its process was made. happened_at: when it ended or failed, at the latest.
    doubt: nanoseconds by which that may have been earlier: 0 if the rank reported it itself. The
        death of a rank without a report is seen only when the kernel has torn it down.
    seconds: run time. peak_memory, cpu_seconds: as the kernel counts them for the process and those
        of its children that it waited for; None if unknown.
    stderr_tail: its last lines of stderr, oldest first, if its group saw them.
    stdout_log, stderr_log, error_file: paths, "" where there is none.
    out_of_memory: for SIGKILL, also of a child: whether memory was the likely reason; None: not
        known.
    note: a remark, "" for none.
    host: the name of its machine, where ranks are on several, else "". local_rank: its number
    there, None where `rank` is that.
    unshown: lines that the console did not show, since its group was being ended. unshown_errors:
        exceptions that they name, in words.
    """

    rank: int
    pid: int | None
    outcome: Outcome
    exit: Exit = UNKNOWN_EXIT
    announced: int | None = None
    sent: tuple[int, ...] | None = None
    type_name: str = ""
    message: str = ""
    traceback: str = ""
    started_at: int = 0
    happened_at: int = 0
    doubt: int = 0
    seconds: float = 0.0
    peak_memory: int | None = None
    cpu_seconds: float | None = None
    stderr_tail: tuple[str, ...] = ()
    stdout_log: str = ""
    stderr_log: str = ""
    error_file: str = ""
    out_of_memory: bool | None = None
    note: str = ""
    host: str = ""
    local_rank: int | None = None
    unshown: int = 0
    unshown_errors: tuple[str, ...] = ()


class GroupEnd(Value):
    """How a group ended: its ranks by how they ended, and remarks about the whole.

    name: the group's name. nproc: its size. attempt: which life of it, from 0.
    failures: ranks that failed by themselves, in the order in which it happened.
    ended: ranks that we ended. finished: ranks that finished. run_dir: "" where there is none.
    stacks: where the ranks were when it failed, in lines, as far as that was seen. stacks_file:
        the path of all their stacks, "" where there is none.
    notes: remarks about the whole, one line each. node, nodes: which of how many machines.
    first: the number that rank 0 has in the whole job. world: how many ranks that has; 0: nproc.
    regrouped: how many of the attempts before ended since a machine came or went: no restarts.
    """

    name: str
    nproc: int
    attempt: int = 0
    failures: tuple[RankEnd, ...] = ()
    ended: tuple[RankEnd, ...] = ()
    finished: tuple[RankEnd, ...] = ()
    run_dir: str = ""
    stacks: tuple[str, ...] = ()
    stacks_file: str = ""
    notes: tuple[str, ...] = ()
    node: int = 0
    nodes: int = 1
    first: int = 0
    world: int = 0
    regrouped: int = 0

    @property
    def together(self) -> tuple[RankEnd, ...]:
        """The failures that are so close in time that each may have been the first."""
        if not self.failures:
            return ()
        cause, *later = self.failures
        latest = cause.happened_at + SIMULTANEOUS
        near = [f for f in later if f.happened_at - f.doubt <= latest]
        return (cause, *(f for f in near if f.outcome is not Outcome.LOST))


class ProcessionError(Exception):
    """The base class of all exceptions of procession."""


class SpecError(ProcessionError, ValueError):
    """The request is invalid; no process was started. The text is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.splitlines()))


class RemoteError(ProcessionError):
    """An exception of a rank that cannot be rebuilt here, because its class cannot be pickled.

    type_name: the name of its class. message: its text.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


class _Reported(ProcessionError):
    """The end of a group, as its report tells it, which is the text of the error."""

    def __init__(self, end: GroupEnd, report: str, *more: Any) -> None:
        super().__init__(end, report, *more)
        self.end = end
        self.report = report

    def __str__(self) -> str:
        return self.report


class GroupFailed(_Reported):
    """A group failed. Its text is the report.

    cause: the failure that happened first. failures: all ranks that failed by themselves, in the
    order in which it happened. ended: ranks that were stopped because of it. finished: ranks
    that had finished. `__cause__` is the exception of the cause, if it had one.
    """

    def __init__(self, end: GroupEnd, report: str) -> None:
        super().__init__(end, report)
        self.failures = end.failures
        self.ended = end.ended
        self.finished = end.finished

    @property
    def cause(self) -> RankEnd:
        """The failure that happened first."""
        return self.failures[0]

    @property
    def exit_code(self) -> int:
        """What a command that ran this group should exit with: never 0."""
        return exit_code_after(self.cause)


def exit_code_after(cause: RankEnd) -> int:
    """Give what a command exits with whose ranks failed by this cause: never 0.

    124 for a hang, as `timeout` has it; 1 for a rank that did not start, however it was ended then.
    """
    if cause.outcome is Outcome.HUNG:
        return HUNG_CODE
    if cause.outcome is Outcome.NOT_STARTED:
        return 1
    return (cause.exit.shell_code if cause.announced is None else cause.announced) or 1


class GroupStopped(_Reported):
    """Another process stopped the group. Its text is the report.

    This is `procession stop` in another terminal, or SIGTERM to a node of a job, for example by
    Slurm.
    end: how its ranks ended. values: by rank; None for ranks that did not return.
    """

    def __init__(self, end: GroupEnd, report: str, values: list[Any]) -> None:
        super().__init__(end, report, values)
        self.values = values


class StartFailed(GroupFailed):
    """A group could not start; nothing of it is left."""
