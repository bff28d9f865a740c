"""`torch.multiprocessing`'s `spawn` and `start_processes`, as a group of ranks.

Whatever else is asked of this module is `multiprocessing`'s own, or torch's where torch is
imported: `Queue`, `get_context`, `set_sharing_strategy` and so on.
"""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

from procession.multiprocessing.exceptions import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
)
from procession.multiprocessing.spawn import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for module in (sys.modules.get("torch.multiprocessing"), multiprocessing):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
