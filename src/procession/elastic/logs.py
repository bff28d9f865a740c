"""Where the output and the error files of ranks go.

`LogsSpecs` plans, `LogsDest` is the plan, and `output_to` is the output of a group by it.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from procession.output.rundir import RunFiles
from procession.output.wiring import Output
from procession.values.policy import Logs, Route, Std

# As the user's own `open(path, "w")` would open it; what a path leads to is the caller's choice.
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC

Choice = Std | Mapping[int, Std]

logger = logging.getLogger("procession.elastic.api")


def to_map(val_or_map: Choice, local_world_size: int) -> dict[int, Std]:
    """Give the streams of each rank: one value for all, or a mapping, in which missing is NONE."""
    if isinstance(val_or_map, Mapping):
        return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}
    return dict.fromkeys(range(local_world_size), val_or_map)


@dataclass
class LogsDest:
    """Paths of log files by local rank.

    stdouts, stderrs: where each rank's stream goes; `""` is the console. tee_stdouts, tee_stderrs:
    files of those that are also shown on the console. error_files: of each rank. filtered_stdout,
    filtered_stderr: for all ranks together, where filters are given.
    """

    stdouts: dict[int, str] = field(default_factory=dict[int, str])
    stderrs: dict[int, str] = field(default_factory=dict[int, str])
    tee_stdouts: dict[int, str] = field(default_factory=dict[int, str])
    tee_stderrs: dict[int, str] = field(default_factory=dict[int, str])
    error_files: dict[int, str] = field(default_factory=dict[int, str])
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Plans where logs go, once for each start. To be subclassed.

    log_dir: the directory below which logs lie. redirects: streams that go to files; one `Std`, or
    a mapping by local rank. tee: streams that go to files and to the console.
    local_ranks_filter: ranks that are shown on the console; None or empty: all.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Choice = Std.NONE,
        tee: Choice = Std.NONE,
        local_ranks_filter: Collection[int] | None = None,
    ) -> None:
        self._root_log_dir = log_dir
        self._redirects = redirects
        self._tee = tee
        self._local_ranks_filter = local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Make the plan for ranks with these environments, by local rank.

        What it sets in `envs` is part of the ranks' environment.
        """

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The directory below which logs lie."""


class DefaultLogsSpecs(LogsSpecs):  # noqa: PLW1641 - it has no hash, because it changes
    """Lays logs out by run, attempt and local rank; parameters are those of `LogsSpecs`.

        <log_dir>/<run id>_<random>/attempt_<k>/<local rank>/stdout.log, stderr.log, error.json
                                    attempt_<k>/filtered_stdout.log, filtered_stderr.log

    log_dir: made if missing; None: a new temporary directory; `os.devnull`: no files at all.
    Raises NotADirectoryError if it is a file.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Choice = Std.NONE,
        tee: Choice = Std.NONE,
        local_ranks_filter: Collection[int] | None = None,
    ) -> None:
        if not log_dir:
            log_dir = tempfile.mkdtemp(prefix="torchelastic_")
        elif log_dir != os.devnull:
            if os.path.isfile(log_dir):
                raise NotADirectoryError(f"log_dir: {log_dir} is a file")
            os.makedirs(log_dir, exist_ok=True)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str:
        """The directory below which logs lie."""
        return str(self._root_log_dir)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Make the directories of an attempt, empty; the run's directory is made once.

        The run's id and the attempt's number are those of rank 0's `TORCHELASTIC_RUN_ID` and
        `TORCHELASTIC_RESTART_COUNT`. Sets `TORCHELASTIC_ERROR_FILE` in each of `envs`. OSError if a
        directory cannot be made.
        """
        common = envs.get(0, {})
        if self._root_log_dir == os.devnull:
            return self._nowhere(envs)
        attempt_dir = self._make_attempt_dir(
            common.get("TORCHELASTIC_RUN_ID", "test_run_id"),
            common.get("TORCHELASTIC_RESTART_COUNT", "0"),
        )
        shown = self._local_ranks_filter or None
        redirects, tees = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        routes = Logs(redirect=redirects, tee=tees, ranks=shown).route(len(envs))
        dest = LogsDest(
            filtered_stdout=os.path.join(attempt_dir, "filtered_stdout.log"),
            filtered_stderr=os.path.join(attempt_dir, "filtered_stderr.log"),
        )
        for rank, (out, err) in enumerate(routes):
            rank_dir = os.path.join(attempt_dir, str(rank))
            os.mkdir(rank_dir)
            for route, name, paths, tee_paths in (
                (out, "stdout.log", dest.stdouts, dest.tee_stdouts),
                (err, "stderr.log", dest.stderrs, dest.tee_stderrs),
            ):
                path = os.path.join(rank_dir, name)
                paths[rank] = {Route.FILE: path, Route.TEE: path, Route.DROP: os.devnull}.get(
                    route, ""
                )
                if route is Route.TEE:
                    tee_paths[rank] = path
            dest.error_files[rank] = os.path.join(rank_dir, "error.json")
            envs[rank]["TORCHELASTIC_ERROR_FILE"] = dest.error_files[rank]
        return dest

    def _nowhere(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        for env in envs.values():
            env["TORCHELASTIC_ERROR_FILE"] = ""
        ranks = range(len(envs))
        console, null = dict.fromkeys(ranks, ""), dict.fromkeys(ranks, os.devnull)
        return LogsDest(
            dict(console), dict(console), dict(null), dict(null), dict(null), os.devnull, os.devnull
        )

    def _make_attempt_dir(self, run_id: str, attempt: str) -> str:
        if not self._run_log_dir:
            os.makedirs(self.root_log_dir, exist_ok=True)
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{run_id}_", dir=self.root_log_dir)
        path = os.path.join(self._run_log_dir, f"attempt_{attempt}")
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def __repr__(self) -> str:
        return (
            f"DefaultLogsSpecs(root_log_dir={self._root_log_dir}, redirects={self._redirects}, "
            f"tee={self._tee}, local_ranks_filter={self._local_ranks_filter})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DefaultLogsSpecs) and self._values() == other._values()

    def _values(self) -> tuple[object, ...]:
        return self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter


class DestFiles(RunFiles):
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
        """Give the path of a rank's stream, "" where it has no file."""
        paths = self._dest.stdouts if stream == "stdout" else self._dest.stderrs
        return "" if paths[rank] == os.devnull else paths[rank]

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
