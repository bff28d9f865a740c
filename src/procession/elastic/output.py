"""The output of a group as a `LogsDest` plans it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence

from procession.elastic.logs import LogsDest
from procession.output.rundir import Files
from procession.output.wiring import Output
from procession.values.policy import Route

# As the user's own `open(path, "w")` would open it; what a path leads to is the caller's choice.
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


class DestFiles(Files):
    """The files of a `LogsDest`, for a group; what the launcher itself would write is dropped."""

    writes = False

    def __init__(self, name: str, dest: LogsDest) -> None:
        self._dest = dest
        self.path = f"{name}_{uuid.uuid4().hex[:8]}"  # no directory: it names the run

    def make_rank_dir(self, attempt: int, rank: int) -> None:
        """Make the directories of a rank's log files. Raises OSError."""
        for stream in ("stdout", "stderr"):
            path = self.log_file(attempt, rank, stream)
            if path:
                os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)

    def error_file(self, attempt: int, rank: int) -> str:
        """Give the path of a rank's error file, "" if it has none."""
        return self._dest.error_files.get(rank) or ""

    def log_file(self, attempt: int, rank: int, stream: str) -> str:
        """Give the path of a rank's stream, "" if that is the console."""
        paths = self._dest.stdouts if stream == "stdout" else self._dest.stderrs
        return paths[rank]

    def open_log(self, attempt: int, rank: int, stream: str) -> int:
        """Open that file for the rank, emptied. Raises OSError."""
        return os.open(self.log_file(attempt, rank, stream), _LOG_FLAGS, 0o666)

    def filtered_file(self, attempt: int, stream: str) -> str:
        """Give the path of the copies of lines."""
        return self._dest.filtered_stdout if stream == "stdout" else self._dest.filtered_stderr


def output_to(
    name: str,
    nproc: int,
    dest: LogsDest,
    log_line_prefixes: Mapping[int, str],
    duplicates: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Output:
    """Plan the output of a group by its `LogsDest`. duplicates: see `Output`."""
    routes = [
        (
            _route(dest.stdouts[rank], dest.tee_stdouts.get(rank)),
            _route(dest.stderrs[rank], dest.tee_stderrs.get(rank)),
        )
        for rank in range(nproc)
    ]
    prefixes = [log_line_prefixes.get(rank, f"[{name}{rank}]:") for rank in range(nproc)]
    return Output(routes, prefixes, DestFiles(name, dest), duplicates)


def _route(path: str, tee_path: str | None) -> Route:
    if not path:
        return Route.INHERIT
    if path == os.devnull:
        return Route.DROP
    return Route.TEE if tee_path else Route.FILE
