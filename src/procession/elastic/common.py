"""What all `PContext`s have in common: names, files, tails, and how they wait and close."""

from __future__ import annotations

import abc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TextIO

from procession.elastic.ended import RunProcsResult
from procession.elastic.logs import LogsSpecs
from procession.elastic.plan import as_arguments, as_text
from procession.elastic.tail_log import TailLog


def validate_full_rank(d: Mapping[int, Any], nprocs: int, what: str) -> None:
    """Raise RuntimeError unless the keys are exactly the local ranks."""
    expected, actual = set(range(nprocs)), set(d)
    if actual != expected:
        raise RuntimeError(
            f"{what}, local rank mapping mismatch, expected: {expected}, actual: {actual}"
        )


class Common(abc.ABC):
    """Ranks that were started together; how, a subclass says by the four abstract methods.

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
        self._prefixes = log_line_prefixes
        self._dest = dest = logs_specs.reify(self.envs)
        validate_full_rank(dest.stdouts, self.nprocs, "stdouts")
        validate_full_rank(dest.stderrs, self.nprocs, "stderrs")
        self.stdouts, self.stderrs, self.error_files = dest.stdouts, dest.stderrs, dest.error_files
        self._tail_logs = [
            TailLog(name, files, stream, log_line_prefixes)
            for files, stream in (
                (self._to_tail(dest.stdouts, dest.tee_stdouts), sys.stdout),
                (self._to_tail(dest.stderrs, dest.tee_stderrs), sys.stderr),
            )
            if files
        ]
        self.filtered_stdout = self._filtered(
            dest.filtered_stdout, dest.tee_stdouts, duplicate_stdout_filters
        )
        self.filtered_stderr = self._filtered(
            dest.filtered_stderr, dest.tee_stderrs, duplicate_stderr_filters
        )

    def _to_tail(self, paths: Mapping[int, str], tees: Mapping[int, str]) -> dict[int, str]:
        """Give those of the teed files that are to be followed from here."""
        del paths
        return {rank: path for rank, path in tees.items() if path not in ("", os.devnull)}

    def _filtered(
        self, path: str, files: Mapping[int, str], texts: list[str] | None
    ) -> TextIO | None:
        """Have the lines that hold one of `texts` copied from `files` to one file."""
        if not texts or path == os.devnull:
            return None
        copy = open(path, "w", errors="replace", buffering=1)  # noqa: SIM115 - `_finish` closes it
        wanted = partial(_holds_one_of, list(texts))
        tail = TailLog(self.name, files, copy, self._prefixes, log_line_filter=wanted)
        self._tail_logs.append(tail)
        return copy

    @abc.abstractmethod
    def _start(self) -> None:
        """Start the ranks."""

    @abc.abstractmethod
    def _poll(self) -> RunProcsResult | None:
        """Give the result if all have ended well or one has failed, None before; do not wait."""

    @abc.abstractmethod
    def pids(self) -> dict[int, int]:
        """Give the processes by local rank; they stay the same when they have ended."""

    @abc.abstractmethod
    def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None:
        """End the ranks: by the signal, and after `timeout` seconds by SIGKILL."""

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all ranks have ended well, or one has failed.

        timeout: seconds; 0 is one look, less waits for ever. period: seconds between two looks.

        Returns None if the ranks still run.
        """
        deadline = None if timeout < 0 else time.monotonic() + timeout
        while (result := self._poll()) is None:
            left = period if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(period, left))
        return result

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End the ranks, and give back what this holds.

        death_sig: the stop signal, by default SIGTERM. timeout: seconds from it to SIGKILL. May be
        called again.
        """
        try:
            self._close(death_sig=death_sig or signal.SIGTERM, timeout=timeout)
        finally:
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
