"""`PContext`: ranks that were started together, as torch's elastic agents know them."""

from __future__ import annotations

import abc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TextIO

from procession.elastic.logs import LogsSpecs
from procession.elastic.plan import as_arguments, as_text
from procession.elastic.result import RunProcsResult
from procession.elastic.signals import give_signals_back, let_signals_raise
from procession.elastic.tail_log import TailLog

logger = logging.getLogger("procession.elastic.api")


def validate_full_rank(d: Mapping[int, Any], nprocs: int, what: str) -> None:
    """Raise RuntimeError unless the keys are exactly the local ranks."""
    expected, actual = set(range(nprocs)), set(d)
    if actual != expected:
        raise RuntimeError(
            f"{what}, local rank mapping mismatch, expected: {expected}, actual: {actual}"
        )


class PContext(abc.ABC):
    """Ranks that were started together; while they run, signals of this process raise exceptions.

    A subclass implements `_start`, `_poll`, `pids` and `_close` for its ranks. Its `wait` calls
    `_poll` each `period`, and only `close` restores the signals.

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

    def start(self) -> None:
        """Start the ranks, and return when all have reached their program.

        In the main thread, the signals that `TORCHELASTIC_SIGNALS_TO_HANDLE` names, by default
        SIGTERM, SIGINT, SIGHUP and SIGQUIT, raise SignalException from now on. They are given back
        by the `wait` that returns a result, or by `close`, of the last ranks that had them, called
        in the main thread: not when the ranks end by themselves. In another thread, a warning is
        logged instead.

        Raises ValueError if it was called before; FileNotFoundError or PermissionError if there is
        no such program; StartFailed, with nothing left running, if a rank could not be started.
        """
        if threading.current_thread() is threading.main_thread():
            let_signals_raise(self)
        else:
            logger.warning(
                "started in another thread than the main one: signals do not raise SignalException"
            )
        self._start()
        for tail_log in self._tail_logs:
            tail_log.start()

    def _to_tail(self, paths: Mapping[int, str], tees: Mapping[int, str]) -> dict[int, str]:
        """Give the teed files that this object follows itself."""
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
        give_signals_back(self)


def _holds_one_of(texts: list[str], line: str) -> bool:
    return any(text in line for text in texts)
