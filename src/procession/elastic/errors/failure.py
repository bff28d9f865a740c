"""`ProcessFailure`: a rank that failed, as its error file and its exit code describe it."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from procession.output.rankfiles import read_regular

JSON = dict[str, Any]

NOT_AVAILABLE = "<N/A>"

logger = logging.getLogger("procession.elastic.errors")


@dataclass
class ProcessFailure:
    """A rank that failed.

    local_rank, pid: of the rank. exitcode: its exit code, or minus the signal that ended it.
    error_file: the path of its error file; `<N/A>` if there is none, or it cannot be read.
    error_file_data: what that file holds; `{"message": "<NONE>"}` without one.
    message: the file's message: text, or a dict with `message` and `extraInfo`. Without a file,
        what else is known.
    timestamp: when it failed, in whole seconds since 1970: by its file, else by now.

    A file that is torn or holds something else counts as none, and a warning is logged.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: JSON = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        found = _read(self.error_file)
        if found is not None:
            self.error_file_data, self.message, self.timestamp = found
        else:
            self.error_file = NOT_AVAILABLE
            self.error_file_data = {"message": "<NONE>"}
            self.message = ""
            self.timestamp = int(time.time())
        if not self.message:
            self.message = self._message_of_exit()

    def _message_of_exit(self) -> str:
        if self.exitcode < 0:
            return f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        self.error_file_data["errorTraits"] = {
            "category": "system_terminated_error",
            "retryability": "False",
        }
        return (
            f"exit code {self.exitcode}, and no error file: put @record on the program's main "
            "function to have its traceback here"
        )

    def signal_name(self) -> str:
        """Give the name of the signal that ended it, `<N/A>` if none did or it has no name."""
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """Give the time of the failure, local, as `YYYY-MM-DD_HH:MM:SS`."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


def _read(path: str) -> tuple[JSON, Any, int] | None:
    """Read an error file: its data, message and time; None if there is no such file."""
    if not os.path.lexists(path):
        return None
    try:
        data = cast("JSON", json.loads(read_regular(path)))
        message: Any = data["message"]
        if isinstance(message, str):
            return data, message, _moment(data.get("timestamp", 0))
        return data, message, _moment(message["extraInfo"]["timestamp"])
    except (
        OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError
    ) as e:  # fmt: skip
        logger.warning("the error file %s is passed over: %s: %s", path, type(e).__name__, e)
        return None


def _moment(said: Any) -> int:
    """Read the time of a failure. Raises ValueError, OSError or OverflowError if it is none."""
    datetime.fromtimestamp(int(said))
    return int(said)
