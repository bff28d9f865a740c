"""`PContext`: ranks that were started together, as torch's elastic agents know them.

The group starts the ranks, watches, ends and reports them, and shows their output. Here is only
what the replaced interface has beyond that: signals, and results in its own terms.
"""

from __future__ import annotations

import abc
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from procession.elastic.errors.failure import NOT_AVAILABLE, ProcessFailure
from procession.elastic.logs import LogsSpecs, output_to
from procession.elastic.plan import as_arguments, as_text, environment, placement_of
from procession.elastic.signals import give_signals_back, let_signals_raise
from procession.explain.report import details, headline
from procession.group.group import Group
from procession.group.result import StillRuns
from procession.rules.tables import Phase
from procession.values.errors import GroupFailed, ProcessionError, RankEnd

logger = logging.getLogger("procession.elastic.api")

_RAN = {"ready", "reported", "exited", "spawn_failed", "start_deadline", "cancelled"}


def validate_full_rank(d: Mapping[int, Any], nprocs: int, what: str) -> None:
    """Raise RuntimeError unless the keys are exactly the local ranks."""
    expected, actual = set(range(nprocs)), set(d)
    if actual != expected:
        raise RuntimeError(
            f"{what}, local rank mapping mismatch, expected: {expected}, actual: {actual}"
        )


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


class PContext(abc.ABC):
    """Ranks of one group; while they run, signals of this process raise exceptions.

    If a rank fails, the others are ended, also while nothing calls `wait`.

    name: stands before the lines of ranks on the console. entrypoint, args, envs: what to run, its
    arguments and its variables, by local rank. logs_specs: plans where output goes.
    log_line_prefixes: by local rank, instead of `[{name}{rank}]:`. numa_options: torch's
    NumaOptions, or None; each rank runs on the CPUs near its GPU then, see `procession.Placement`.
    duplicate_stdout_filters, duplicate_stderr_filters: of what is teed, the lines that hold one of
    these texts are also written to one file for all ranks, with their prefixes.

    nprocs: how many ranks. stdouts, stderrs, error_files: paths by local rank.
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: Mapping[int, Any],
        envs: Mapping[int, Mapping[str, Any]],
        logs_specs: LogsSpecs,
        log_line_prefixes: Mapping[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        self.name = name
        self.entrypoint = entrypoint
        self.nprocs = len(args)
        self.args = {rank: as_arguments(given, rank) for rank, given in args.items()}
        self.envs: dict[int, Any] = {rank: as_text(env) for rank, env in envs.items()}
        self._placement = placement_of(numa_options, self.nprocs)
        self._dest = dest = logs_specs.reify(self.envs)
        validate_full_rank(dest.stdouts, self.nprocs, "stdouts")
        validate_full_rank(dest.stderrs, self.nprocs, "stderrs")
        self.stdouts, self.stderrs, self.error_files = dest.stdouts, dest.stderrs, dest.error_files
        filters = duplicate_stdout_filters or (), duplicate_stderr_filters or ()
        self._output = output_to(name, self.nprocs, dest, log_line_prefixes or {}, filters)
        self._handlers: dict[int, Any] = {}  # what signals did before
        self._group: Group | None = None
        self._result: RunProcsResult | None = None

    def start(self) -> None:
        """Start the ranks, and return when all have reached their program.

        In the main thread, the signals that `TORCHELASTIC_SIGNALS_TO_HANDLE` names, by default
        SIGTERM, SIGINT, SIGHUP and SIGQUIT, raise SignalException from now on. They are given back
        by the `wait` that returns a result, or by `close`, called in the main thread: not when the
        ranks end by themselves. In another thread, a warning is logged instead.

        Raises ValueError if it was called before; FileNotFoundError or PermissionError if there is
        no such program; StartFailed, with nothing left running, if a rank could not be started.
        """
        if self._group is not None:
            raise ValueError("these ranks are already initialized: start() was called before")
        self._handlers = let_signals_raise()
        ranks = range(self.nprocs)
        envs = [environment(self.envs.get(rank, {}), self._dest, rank) for rank in ranks]
        self._group = self._begin_group(envs)
        _wait_until_all_ran(self._group, self.nprocs)
        self._group.driver.request_impatience()
        self._group.wait_started()

    @abc.abstractmethod
    def _begin_group(self, envs: list[dict[str, str | None]]) -> Group:
        """Make the group, with these environments by rank, and return while it starts."""

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all ranks have ended well, or one has failed and the others are ended.

        timeout: seconds; 0 is one look, less waits for ever. period: has no meaning here: it
        returns as soon as it is known.

        Returns None if the ranks still run. SignalException comes out of here, too: then `close`
        with its `sigval`. Raises ProcessionError if a rank's value cannot be unpickled.
        """
        if self._result is None:
            if self._group is None:
                raise RuntimeError("there is nothing to wait for: start() has not been called")
            try:
                ended = self._group.wait(
                    None if timeout < 0 else min(timeout, threading.TIMEOUT_MAX)
                )
            except StillRuns:
                return None
            except GroupFailed as e:
                self._result = self._failed(e.failures)
            except ProcessionError:
                give_signals_back(self._handlers)
                raise
            else:
                if ended.state is Phase.STOPPED:
                    self._result = self._failed([e for e in ended.ranks if exit_code(e) != 0])
                else:
                    self._result = self._ended(return_values=dict(enumerate(ended.values)))
        give_signals_back(self._handlers)
        return self._result

    def _ended(self, **what: Any) -> RunProcsResult:
        return RunProcsResult(stdouts=self.stdouts, stderrs=self.stderrs, **what)

    def _failed(self, ends: Iterable[RankEnd]) -> RunProcsResult:
        failures = {
            end.rank: failure_of(end, self.nprocs, self.error_files.get(end.rank) or "")
            for end in ends
        }
        for rank, first in [*failures.items()][:1]:
            logger.error("rank %s of %s failed (exitcode: %s)", rank, self.name, first.exitcode)
        return self._ended(failures=failures)

    def pids(self) -> dict[int, int]:
        """Give the processes by local rank; they stay the same when they have ended."""
        return dict(sorted(self._group.pids().items())) if self._group is not None else {}

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End the ranks with all that they started, and give back what this holds.

        death_sig: the stop signal, by default SIGTERM. timeout: seconds from it to SIGKILL, for all
        ranks together. What survives SIGKILL for more than ten seconds (in uninterruptible sleep)
        is logged and left. May be called again.
        """
        try:
            if self._group is not None:
                number = death_sig or signal.SIGTERM
                for _, pid in self._running(self._group):
                    logger.warning("closing process %s by %s", pid, signal.Signals(number).name)
                self._group.stop(number, max(0.0, timeout))
                for rank, pid in self._running(self._group):
                    logger.error("process %s (rank %s) survived SIGKILL; it is left", pid, rank)
        finally:
            give_signals_back(self._handlers)

    shutdown = close  # what the replaced interface's documentation calls

    def _running(self, group: Group) -> list[tuple[int, int]]:
        return [(rank, pid) for rank, pid in self.pids().items() if group.exit_of(rank) is None]


def _wait_until_all_ran(group: Group, nproc: int) -> None:
    """Wait until no rank is on its way to its program, even if one has failed already."""
    ran: set[int | None] = set()
    for event in group:
        if event.kind in _RAN:
            ran.add(event.rank)
        if len(ran) == nproc:
            return
