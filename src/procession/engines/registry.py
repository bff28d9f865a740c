"""Engines by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from procession.engines.contract import Chosen
from procession.prepare.work import Share
from procession.values.errors import SpecError

NAMES = ("slurm", "ray", "ssh")
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def choose(
    name: str,
    share: Share,
    nodes: int | None,
    spares: int = 0,
    options: Mapping[str, str] = NO_OPTIONS,
) -> Chosen:
    """Give the engine of this name for what each node is to run.

    nodes: how many are asked for; None: as many as the engine has. spares: how many more are held
    ready. options: of the engine's own. Raises SpecError, and EngineError for an engine that is
    not there.
    """
    if nodes is not None and (type(nodes) is not int or nodes < 1):
        raise SpecError(f"nnodes must be a count of 1 or more, not {nodes!r}")
    if name not in NAMES:
        raise SpecError(f"there is no engine {name!r}; there are {', '.join(NAMES)}")
    module: Any = import_module(f"procession.engines.{name}.engine")
    return module.choose(share, nodes, spares, options)
