"""What `join` raises: a rank raised an exception, or its process ended otherwise."""

from __future__ import annotations

from typing import Any


class ProcessException(Exception):
    """A rank failed.

    msg: what happened. error_index: the rank. error_pid: its process. It can be pickled.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    @property
    def pid(self) -> int:
        """The same as `error_pid`."""
        return self.error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A rank's function raised an exception; the message holds its traceback.

    Where the exception itself could be brought here, it is the `__cause__`.
    """


class ProcessExitedException(ProcessException):
    """A rank was ended by a signal, or exited with a code other than 0.

    exit_code: the exit code, or minus the number of the signal. signal_name: such as `SIGKILL`,
    None if it was none.
    """

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), fields
