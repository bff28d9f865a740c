"""`torch.distributed.elastic.multiprocessing`, over the group of this library.

Where the original's prefix stands in an import, `procession.elastic` may stand: names, parameters,
files and exceptions are the same. What the original's documentation shows and what no longer runs
there (`log_dir`, `redirects` and `tee` as parameters, a bare string as the only argument, variables
that are numbers, no `envs`) runs here.

    from procession.elastic import Std, start_processes

    ctx = start_processes(
        name="trainer",
        entrypoint=trainer,
        args={0: (1, 2, 3), 1: (4, 5, 6)},
        envs={0: {"LOCAL_RANK": 0}, 1: {"LOCAL_RANK": 1}},
        log_dir="/tmp/foobar",
        redirects=Std.ALL,
        tee={0: Std.ERR},
    )
    result = ctx.wait()
"""

from __future__ import annotations

TYPE_CHECKING = False  # a rank passes through here: nothing is imported that it does not need
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from procession.elastic.api import (
        DefaultLogsSpecs,
        LogsDest,
        LogsSpecs,
        MultiprocessContext,
        PContext,
        RunProcsResult,
        SignalException,
        Std,
        SubprocessContext,
        to_map,
    )
    from procession.elastic.errors import ProcessFailure

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
    "start_processes",
    "to_map",
]


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
    from procession.elastic import api
    from procession.elastic.common import validate_full_rank

    if envs is None:
        envs = {rank: {} for rank in args}
    validate_full_rank(args, len(args), "args")
    validate_full_rank(envs, len(args), "envs")
    if logs_specs is None:
        logs_specs = api.DefaultLogsSpecs(
            log_dir,
            api.Std.NONE if redirects is None else redirects,
            api.Std.NONE if tee is None else tee,
        )
    elif not (log_dir is redirects is tee is None):
        raise TypeError("give logs_specs, or log_dir, redirects and tee, but not both")
    common = (logs_specs, log_line_prefixes, numa_options)
    filters = (duplicate_stdout_filters, duplicate_stderr_filters)
    context: PContext
    if callable(entrypoint):
        context = api.MultiprocessContext(
            name, entrypoint, args, envs, start_method, *common, *filters
        )
    else:
        context = api.SubprocessContext(name, entrypoint, args, envs, *common, *filters)
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context


_MODULES = ("api", "errors", "redirects", "subprocess_handler", "tail_log")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name not in (*__all__, "_validate_full_rank"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from procession.elastic import api, errors

    value = getattr(errors if name == "ProcessFailure" else api, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
