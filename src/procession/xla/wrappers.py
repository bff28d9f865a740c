"""What a model, or any function, needs so that ranks take turns with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def _lock() -> Any:
    # One that forks share, and that can be an argument of ranks that are started afresh.
    return multiprocessing.get_context("spawn").Lock()


class MpModelWrapper:
    """A model that ranks move to their devices one after the other.

    model: on the CPU. To be made before the ranks, which get it by `start_method="fork"`, and then
    share its memory, or as an argument. A module that every rank imports anew makes one for each.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._lock = _lock()

    def to(self, device: Any) -> Any:
        """Move the model to a device; gives the model."""
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs a function in one rank at a time; to be made as a `MpModelWrapper`."""

    def __init__(self) -> None:
        self._lock = _lock()

    def run(self, fn: Callable[[], T]) -> T:
        """Call a function while no other rank is in here; gives its value."""
        with self._lock:
            return fn()
