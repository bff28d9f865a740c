"""What a model, or any function, needs so that ranks take turns with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class MpModelWrapper:
    """A model that ranks move to their devices one after the other.

    model: on the CPU. To be made before the ranks, which get it by `start_method="fork"`, and then
    share its memory, or as an argument. A module that every rank imports anew makes one for each.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        # Forks share it, and it can be an argument of ranks that are started afresh.
        self._lock = multiprocessing.get_context("spawn").Lock()

    def to(self, device: Any) -> Any:
        """Move the model to a device; gives the model."""
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs a function in one rank at a time; to be made as a `MpModelWrapper`."""

    def __init__(self) -> None:
        # Forks share it, and it can be an argument of ranks that are started afresh.
        self._lock = multiprocessing.get_context("spawn").Lock()

    def run(self, fn: Callable[[], T]) -> T:
        """Call a function while no other rank is in here; gives its value."""
        with self._lock:
            return fn()
