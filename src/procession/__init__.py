"""procession: launch n copies of a function or a program as one group of ranks.

They start together, fail together, say why, and leave nothing behind.

    import procession

    values = procession.run(train, args=(config,), nproc=4)
    procession.run(["python", "train.py"], nproc=4)
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# Names are imported when they are first used: a rank imports this package, too.
_PLACES = {
    "run": "launch",
    "start": "launch",
    "start_on": "launch",
    "Job": "engines.job",
    "EngineError": "engines.contract",
    "Group": "group",
    "Result": "group",
    "Logs": "policy",
    "Std": "policy",
    "Stop": "policy",
    "Restart": "policy",
    "Hang": "policy",
    "Placement": "placement",
    "Event": "events",
    "Phase": "lifecycle",
    "Exit": "exit",
    "Outcome": "errors",
    "RankEnd": "errors",
    "GroupEnd": "errors",
    "GroupFailed": "errors",
    "StartFailed": "errors",
    "SpecError": "errors",
    "RemoteError": "errors",
    "ProcessionError": "errors",
    "beat": "worker.board",
    "stopping": "worker.board",
    "Command": "spec",
    "Script": "spec",
    "Module": "spec",
    "Function": "spec",
}

_FACES = ("devices", "elastic", "forkserver", "jax", "multiprocessing", "telemetry", "xla")

if TYPE_CHECKING:
    from procession.engines.contract import EngineError
    from procession.engines.job import Job
    from procession.errors import (
        GroupEnd,
        GroupFailed,
        Outcome,
        ProcessionError,
        RankEnd,
        RemoteError,
        SpecError,
        StartFailed,
    )
    from procession.events import Event
    from procession.exit import Exit
    from procession.group import Group, Result
    from procession.launch import run, start, start_on
    from procession.lifecycle import Phase
    from procession.placement import Placement
    from procession.policy import Hang, Logs, Restart, Std, Stop
    from procession.spec import Command, Function, Module, Script
    from procession.worker.board import beat, stopping

__all__ = [
    "Command",
    "EngineError",
    "Event",
    "Exit",
    "Function",
    "Group",
    "GroupEnd",
    "GroupFailed",
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
    "beat",
    "run",
    "start",
    "start_on",
    "stopping",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FACES:
        return import_module(f"{__name__}.{name}")
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
