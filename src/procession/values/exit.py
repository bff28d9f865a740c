"""How a process ended, as `wait(2)` reports it."""

from __future__ import annotations

import os
import signal as signals
from functools import cache

from procession.values.base import Value


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
