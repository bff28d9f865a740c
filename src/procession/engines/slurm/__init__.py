"""Slurm: nodes of an allocation."""

from __future__ import annotations

TYPE_CHECKING = False  # names are imported when they are used: parts of this run on every node
if TYPE_CHECKING:
    from typing import Any

    from procession.engines.slurm.engine import Slurm

_PLACES = {"Slurm": "engine"}
__all__ = ["Slurm"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
