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
    from typing import Any

    from procession.elastic.api import (
        DefaultLogsSpecs,
        LogsDest,
        LogsSpecs,
        MultiprocessContext,
        PContext,
        ProcessFailure,
        RunProcsResult,
        SignalException,
        Std,
        SubprocessContext,
        start_processes,
        to_map,
    )

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

_MODULES = ("api", "errors", "redirects", "tail_log")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in (*__all__, "_validate_full_rank"):
        return getattr(import_module(f"{__name__}.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
