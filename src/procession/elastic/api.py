"""`start_processes`, and the names that the replaced interface has beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from procession.elastic.context import PContext, RunProcsResult, validate_full_rank
from procession.elastic.errors import ProcessFailure, record
from procession.elastic.logs import DefaultLogsSpecs, LogsDest, LogsSpecs, to_map
from procession.elastic.ranks import MultiprocessContext, SubprocessContext
from procession.elastic.redirects import redirect_stderr, redirect_stdout
from procession.elastic.signals import SignalException, raise_signal
from procession.elastic.tail_log import TailLog
from procession.values.policy import Std

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "TailLog",
    "get_std_cm",
    "record",
    "redirect_stderr",
    "redirect_stdout",
    "start_processes",
    "to_map",
]

logger = logging.getLogger(__name__)

_validate_full_rank = validate_full_rank
_terminate_process_handler = raise_signal


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: Mapping[int, Any],
    envs: Mapping[int, Mapping[str, Any]] | None = None,
    logs_specs: LogsSpecs | None = None,
    log_line_prefixes: Mapping[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    duplicate_stdout_filters: list[str] | None = None,
    duplicate_stderr_filters: list[str] | None = None,
    *,
    log_dir: str | None = None,
    redirects: Std | Mapping[int, Std] | None = None,
    tee: Std | Mapping[int, Std] | None = None,
) -> PContext:
    """Start one copy of `entrypoint` per local rank, and return when all have reached it.

    name: for reports, and before lines on the console.
    entrypoint: a function, or the name or path of a program.
    args: by local rank, from 0 on without a gap, a tuple, or a bare string for one argument; a
        program gets each as `str` gives it.
    envs: by local rank, variables to add to those of this process; None: none. Values are
        converted by `str`; None takes a variable away. A function finds them before its code is
        imported.
    logs_specs: plans where output goes. Or, instead, in the older form:
    log_dir, redirects, tee: those of `DefaultLogsSpecs`.
    log_line_prefixes: by local rank, what stands before each teed line; by default
        `[{name}{rank}]:`.
    start_method: for functions: "spawn", "forkserver" or "fork"; see `MultiprocessContext`.
    numa_options: torch's NumaOptions: on which CPUs ranks run; None: where this process does.
    duplicate_stdout_filters, duplicate_stderr_filters: texts; the teed lines that hold one of them
        are also written to the `filtered_stdout`, `filtered_stderr` of the `LogsDest`.

    Raises RuntimeError if `args` and `envs` do not name exactly the local ranks, TypeError for both
    `logs_specs` and the older form, and what `PContext.start` raises; then nothing is left running.
    """
    if envs is None:
        envs = {rank: {} for rank in args}
    validate_full_rank(args, len(args), "args")
    validate_full_rank(envs, len(args), "envs")
    if logs_specs is None:
        logs_specs = DefaultLogsSpecs(log_dir, redirects or Std.NONE, tee or Std.NONE)
    elif not (log_dir is redirects is tee is None):
        raise TypeError("give logs_specs, or log_dir, redirects and tee, but not both")
    more = (logs_specs, log_line_prefixes, numa_options)
    filters = (duplicate_stdout_filters, duplicate_stderr_filters)
    context: PContext
    if callable(entrypoint):
        context = MultiprocessContext(name, entrypoint, args, envs, start_method, *more, *filters)
    else:
        context = SubprocessContext(name, entrypoint, args, envs, *more, *filters)
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context


def get_std_cm(
    std_rd: str, redirect_fn: Callable[[str], AbstractContextManager[Any]]
) -> AbstractContextManager[Any]:
    """Give `redirect_fn(std_rd)`; for "", which is the console, one that redirects nothing."""
    return redirect_fn(std_rd) if std_rd else nullcontext()
