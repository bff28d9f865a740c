"""From what `start_processes` is given to what a group needs: its output and its environment."""

from __future__ import annotations

import errno
import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from procession.elastic.logs import LogsDest
from procession.errors import SpecError
from procession.output.plan import Output
from procession.placement import MODES, Placement
from procession.placing import place
from procession.policy import Route, Stop
from procession.rankenv import callers_environment
from procession.spec import Spec, make_spec, program_problem

logger = logging.getLogger("procession.elastic.api")

Environment = dict[str, str | None]

# Patient until every rank has its process, which whoever asks for pids relies on; see `Ranks`.
STOP = Stop(patience=None)

# As the user's own `open(path, "w")` would open it; what a path leads to is the caller's choice.
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


class DestFiles:
    """The files of a `LogsDest` as a group's files; what the launcher has to write, it drops."""

    kept = True
    fault = ""

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

    def write_run(self, asked: Mapping[str, Any]) -> None:
        """Drop it: a `LogsDest` has no place for it."""

    def write_event(self, event: Mapping[str, Any]) -> None:
        """Drop it: a `LogsDest` has no place for it."""

    def write_stacks(self, attempt: int, text: str) -> str:
        """Drop it, too."""
        return ""

    def write_end(self, result: Mapping[str, Any], report: str) -> None:
        """Drop it: a `LogsDest` has no place for it."""

    def close(self) -> None:
        """Nothing is open."""


def output_to(
    name: str, nproc: int, dest: LogsDest, log_line_prefixes: Mapping[int, str] | None
) -> Output:
    """Plan the output of a group by its `LogsDest`."""
    given = log_line_prefixes or {}
    routes = [
        (
            _route(dest.stdouts[rank], dest.tee_stdouts.get(rank)),
            _route(dest.stderrs[rank], dest.tee_stderrs.get(rank)),
        )
        for rank in range(nproc)
    ]
    prefixes = [given.get(rank, f"[{name}{rank}]:") for rank in range(nproc)]
    return Output(routes, prefixes, DestFiles(name, dest))


def _route(path: str, tee_path: str | None) -> Route:
    if not path:
        return Route.INHERIT
    if path == os.devnull:
        return Route.DROP
    return Route.TEE if path == tee_path else Route.FILE


def tees_beside(paths: Mapping[int, str], tee_paths: Mapping[int, str]) -> dict[int, str]:
    """Give the files that are to be shown although no stream of their rank leads there."""
    return {
        rank: path
        for rank, path in tee_paths.items()
        if path not in ("", os.devnull, paths.get(rank))
    }


def environment(given: Mapping[str, str | None], dest: LogsDest, rank: int) -> Environment:
    """Give a rank's variables: those of this process and those given.

    The variables that a group sets for its ranks are left out, but for two: the error file, and
    that Python shall not hold back what it writes to a log file. (On the console, it shall: ranks
    that write to it piece by piece would mix their lines.)
    """
    plain = callers_environment(os.environ)
    error_file = dest.error_files.get(rank)
    if error_file:
        plain["TORCHELASTIC_ERROR_FILE"] = error_file
    if dest.stdouts[rank]:
        del plain["PYTHONUNBUFFERED"]
    return {**plain, **given}


def as_text(given: Mapping[str, Any]) -> Environment:
    """Give an environment with its values as text; None takes a variable away."""
    return {name: None if value is None else str(value) for name, value in given.items()}


def as_arguments(given: Any, rank: int) -> tuple[Any, ...]:
    """Give a rank's arguments as a tuple; a bare string is one argument. Raises TypeError."""
    if isinstance(given, (str, bytes)):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        raise TypeError(
            f"args of rank {rank} must be a tuple, not {given!r}; one argument is ({given!r},)"
        ) from None


def command_spec(
    name: str,
    entrypoint: str,
    args: Sequence[Sequence[Any]],
    envs: Sequence[Mapping[str, str | None]],
    placement: Placement | None = None,
) -> Spec:
    """Describe a group of programs, each with its arguments as text; rank 0 has our stdin.

    Raises FileNotFoundError or PermissionError if there is no such program, and ValueError.
    """
    for env in envs:
        problem = program_problem(entrypoint, None, env.get("PATH"))
        if problem:
            code = errno.EACCES if os.path.exists(entrypoint) else errno.ENOENT
            raise OSError(code, problem, entrypoint)
    return make_spec(
        (entrypoint,),
        nproc=len(args),
        args={rank: tuple(map(str, words)) for rank, words in enumerate(args)},
        env=dict(enumerate(envs)),
        name=name,
        stdin=0,
        stop=STOP,
        placement=placement,
    )


def placement_of(numa_options: Any, nproc: int) -> Placement | None:
    """Read torch's NumaOptions, or what has its attributes, for a group of `nproc` ranks.

    Raises TypeError for what is none, and SpecError if ranks cannot be bound so; if the options say
    that this is no reason to fail, it is logged, and None is given.
    """
    if numa_options is None:
        return None
    mode = getattr(numa_options, "affinity_mode", None)
    mode = getattr(mode, "value", mode)
    if mode not in MODES:
        raise TypeError(f"numa_options must be NumaOptions with an affinity mode: {numa_options!r}")
    placement = Placement(numa=mode)
    try:
        place(make_spec(("true",), nproc=nproc, placement=placement), os.environ)
    except SpecError as e:
        if not getattr(numa_options, "should_fall_back_if_binding_fails", False):
            raise
        logger.warning("ranks are not bound to CPUs: %s", e)
        return None
    return placement
