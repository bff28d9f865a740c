"""Ranks of one `Group`, in the terms of the replaced interface; `api` adds its signals.

A thin face: the group starts the ranks, watches, ends and reports them, and shows their output.
Here is only what the replaced interface has beyond that: filtered copies of logs, and results in
its own terms.
"""

from __future__ import annotations

import abc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TextIO

from procession.elastic.ended import RunProcsResult, exit_code, failure_of
from procession.elastic.logs import LogsSpecs
from procession.elastic.plan import as_arguments, as_text, environment, output_to, tees_beside
from procession.elastic.tail_log import TailLog
from procession.errors import GroupFailed, ProcessionError, RankEnd
from procession.group import Group
from procession.lifecycle import Phase
from procession.output.plan import Output

logger = logging.getLogger("procession.elastic.api")


def validate_full_rank(d: Mapping[int, Any], nprocs: int, what: str) -> None:
    """Raise RuntimeError unless the keys are exactly the local ranks."""
    expected, actual = set(range(nprocs)), set(d)
    if actual != expected:
        raise RuntimeError(
            f"{what}, local rank mapping mismatch, expected: {expected}, actual: {actual}"
        )


class Ranks(abc.ABC):
    """Ranks that share fate: if one fails, the others are ended, whether or not anybody waits.

    name: stands before the lines of ranks on the console. entrypoint, args, envs: what to run, its
    arguments and its variables, by local rank. logs_specs: plans where output goes.
    log_line_prefixes: by local rank, instead of `[{name}{rank}]:`. duplicate_stdout_filters,
    duplicate_stderr_filters: of what is teed, the lines that hold one of these texts are also
    written to one file for all ranks, with their prefixes.

    nprocs: how many ranks. stdouts, stderrs, error_files: paths by local rank. filtered_stdout,
    filtered_stderr: the open files of the filters, or None.
    """

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: Mapping[int, Any],
        envs: Mapping[int, Mapping[str, Any]],
        logs_specs: LogsSpecs,
        log_line_prefixes: Mapping[int, str] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:
        self.name = name
        self.entrypoint = entrypoint
        self.nprocs = len(args)
        self.args = {rank: as_arguments(given, rank) for rank, given in args.items()}
        self.envs: dict[int, Any] = {rank: as_text(env) for rank, env in envs.items()}
        self._dest = dest = logs_specs.reify(self.envs)
        validate_full_rank(dest.stdouts, self.nprocs, "stdouts")
        validate_full_rank(dest.stderrs, self.nprocs, "stderrs")
        self.stdouts, self.stderrs, self.error_files = dest.stdouts, dest.stderrs, dest.error_files
        self._output = output_to(name, self.nprocs, dest, log_line_prefixes)
        self._group: Group | None = None
        self._result: RunProcsResult | None = None
        self._tail_logs = [
            TailLog(name, files, stream, log_line_prefixes)
            for files, stream in (
                (tees_beside(dest.stdouts, dest.tee_stdouts), sys.stdout),
                (tees_beside(dest.stderrs, dest.tee_stderrs), sys.stderr),
            )
            if files
        ]
        self.filtered_stdout = self._filtered(
            dest.filtered_stdout, dest.tee_stdouts, log_line_prefixes, duplicate_stdout_filters
        )
        self.filtered_stderr = self._filtered(
            dest.filtered_stderr, dest.tee_stderrs, log_line_prefixes, duplicate_stderr_filters
        )

    def _filtered(
        self,
        path: str,
        files: Mapping[int, str],
        prefixes: Mapping[int, str] | None,
        texts: list[str] | None,
    ) -> TextIO | None:
        """Have the lines that hold one of `texts` copied from `files` to one file."""
        if not texts or path == os.devnull:
            return None
        copy = open(path, "w", errors="replace", buffering=1)  # noqa: SIM115 - `_finish` closes it
        wanted = partial(_holds_one_of, list(texts))
        tail = TailLog(self.name, files, copy, prefixes, log_line_filter=wanted)
        self._tail_logs.append(tail)
        return copy

    @abc.abstractmethod
    def _begin(self, envs: list[dict[str, str | None]], output: Output) -> Group:
        """Make the group, with these environments by rank; see `launch.begin`."""

    @abc.abstractmethod
    def _begun(self, group: Group) -> None:
        """Take note of a group that is being started."""

    def _start(self) -> None:
        if self._group is not None or self._result is not None:
            raise ValueError("these ranks have been started before")
        if not self.nprocs:
            self._result = RunProcsResult()
            return
        ranks = range(self.nprocs)
        envs = [environment(self.envs.get(rank, {}), self._dest, rank) for rank in ranks]
        self._group = self._begin(envs, self._output)
        self._begun(self._group)
        _wait_until_all_ran(self._group, self.nprocs)
        self._group.expire()
        self._group.wait_started()

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
            except TimeoutError:
                return None
            except GroupFailed as e:
                self._result = self._failed(e.failures)
            except ProcessionError:
                self._finish()
                raise
            else:
                if ended.state is Phase.STOPPED:
                    self._result = self._failed([e for e in ended.ranks if exit_code(e) != 0])
                else:
                    self._result = self._ended(return_values=dict(enumerate(ended.values)))
        self._finish()
        return self._result

    def _ended(self, **what: Any) -> RunProcsResult:
        return RunProcsResult(stdouts=self.stdouts, stderrs=self.stderrs, **what)

    def _failed(self, ends: Iterable[RankEnd]) -> RunProcsResult:
        failures = {
            end.rank: failure_of(end, self.nprocs, self.error_files.get(end.rank) or "")
            for end in ends
        }
        for first in [*failures.values()][:1]:
            logger.error(
                "failed (exitcode: %s) local_rank: %s (pid: %s) of %s",
                first.exitcode,
                first.local_rank,
                first.pid,
                self._what(),
            )
        return self._ended(failures=failures)

    @abc.abstractmethod
    def _what(self) -> str:
        """Name what was run, for the log."""

    def pids(self) -> dict[int, int]:
        """Give the processes by local rank; they stay the same when they have ended."""
        return dict(sorted(self._group.pids().items())) if self._group is not None else {}

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End the ranks with all that they started, and give back what this holds.

        death_sig: the stop signal, by default SIGTERM. timeout: seconds from it to SIGKILL, one
        deadline for all. Returns when they are gone; what survives SIGKILL for more than ten
        seconds (in uninterruptible sleep) is logged and left. May be called again.
        """
        number = death_sig or signal.SIGTERM
        group = self._group
        if group is not None and not group.state.final:
            for rank, pid in self.pids().items():
                if group.exit_of(rank) is None:
                    logger.warning("closing process %s by %s", pid, signal.Signals(number).name)
            group.stop(number, max(0.0, timeout))
            for rank, pid in self.pids().items():
                if group.exit_of(rank) is None:
                    logger.error("process %s (rank %s) survived SIGKILL; it is left", pid, rank)
        self._finish()

    shutdown = close  # what the replaced interface's documentation calls

    def _finish(self) -> None:
        for tail_log in self._tail_logs:
            tail_log.stop()
        for copy in (self.filtered_stdout, self.filtered_stderr):
            if copy is not None:
                copy.close()


def _holds_one_of(texts: list[str], line: str) -> bool:
    return any(text in line for text in texts)


_RAN = {"ready", "reported", "exited", "spawn_failed", "start_deadline", "cancelled"}


def _wait_until_all_ran(group: Group, nproc: int) -> None:
    """Wait until no rank is on its way to its program, even if one has failed already."""
    ran: set[int | None] = set()
    for event in group:
        if event.kind in _RAN:
            ran.add(event.rank)
        if len(ran) == nproc:
            return
