"""procession: launch n copies of a function or a program as one group of ranks.

They start together, fail together, say why, and leave nothing behind.

    import procession

    values = procession.run(train, args=(config,), nproc=4)
    procession.run(["python", "train.py"], nproc=4)

PYTEST_DONT_REWRITE: pytest in ranks would warn that it comes too late to rewrite this package.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from typing import Any

if sys.platform != "linux":
    _why = f"procession runs on Linux, not on {sys.platform}: use a Linux machine, container or WSL"
    # In one line for the commands, which import this first.
    if sys.argv[0].replace("\\", "/").rpartition("/")[2].startswith("procession"):
        sys.exit(_why)
    raise ImportError(_why)

# Names are imported when they are first used: a rank imports this package, too.
_NAMES = {
    "values.version": "__version__",
    "api.launch": "run start start_on",
    "adoption.adopting": "adopt",
    "group.group": "Job Group",
    "engines.contract": "EngineError",
    "group.result": "Result",
    "values.policy": "Logs Std Stop Restart Hang",
    "values.placement": "Placement",
    "values.events": "Event",
    "rules.tables": "Phase",
    "values.errors": "Exit Outcome RankEnd GroupEnd GroupFailed GroupStopped StartFailed "
    "SpecError RemoteError ProcessionError",
    "worker.board": "beat stopping",
    "worker.shared": "once",
    "values.program": "Command Script Module Function",
}  # by module

_FACES = ("devices", "elastic", "forkserver", "jax", "multiprocessing", "telemetry", "xla")

if TYPE_CHECKING:
    from procession.adoption.adopting import adopt
    from procession.api.launch import run, start, start_on
    from procession.engines.contract import EngineError
    from procession.group.group import Group, Job
    from procession.group.result import Result
    from procession.rules.tables import Phase
    from procession.values.errors import (
        Exit,
        GroupEnd,
        GroupFailed,
        GroupStopped,
        Outcome,
        ProcessionError,
        RankEnd,
        RemoteError,
        SpecError,
        StartFailed,
    )
    from procession.values.events import Event
    from procession.values.placement import Placement
    from procession.values.policy import Hang, Logs, Restart, Std, Stop
    from procession.values.program import Command, Function, Module, Script
    from procession.values.version import __version__ as __version__
    from procession.worker.board import beat, stopping
    from procession.worker.shared import once

__all__ = [
    "Command",
    "EngineError",
    "Event",
    "Exit",
    "Function",
    "Group",
    "GroupEnd",
    "GroupFailed",
    "GroupStopped",
    "Hang",
    "Job",
    "Logs",
    "Module",
    "Outcome",
    "Phase",
    "Placement",
    "ProcessionError",
    "RankEnd",
    "RemoteError",
    "Restart",
    "Result",
    "Script",
    "SpecError",
    "StartFailed",
    "Std",
    "Stop",
    "adopt",
    "beat",
    "once",
    "run",
    "start",
    "start_on",
    "stopping",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FACES:
        return import_module(f"{__name__}.{name}")
    for module, names in _NAMES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
