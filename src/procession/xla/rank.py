"""What a rank runs around the user's function: it tells torch_xla about the other ranks.

Here, and nowhere before, torch_xla is imported: it reads its environment when it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

# Variables of XRT that say which rank this is.
WORLD_SIZE, ORDINAL = "XRT_SHARD_WORLD_SIZE", "XRT_SHARD_ORDINAL"
DEVICE = "XRT_MULTI_PROCESSING_DEVICE"
FRAMES = 16  # of a traceback
FAILED = 17  # the exit code of a rank that raised an exception


class _Call:
    """A function with the name of the one that it calls."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = str(getattr(fn, "__name__", type(fn).__name__))


class OnXrt(_Call):
    """A function on XRT: called with its ordinal, from the environment.

    An exception is written to stderr, and the process exits with code 17.
    """

    def __call__(self, _: int, *args: Any) -> None:
        """Call it."""
        try:
            if int(os.environ[WORLD_SIZE]) > 1 and _installed():
                model: Any = import_module("torch_xla.core.xla_model")
                device = str(model.xla_device())
                model.set_replication(device, [device])
            self.fn(int(os.environ[ORDINAL]), *args)
        except Exception as e:
            _print(e, os.environ[DEVICE])
            sys.exit(FAILED)


class OnPjrt(_Call):
    """A function on PJRT: called with its ordinal.

    first: the ordinal of the first rank of this host where torch_xla cannot be asked. world_size:
    how many ranks all hosts have.
    """

    def __init__(self, fn: Callable[..., Any], first: int, world_size: int) -> None:
        super().__init__(fn)
        self.first = first
        self.world_size = world_size

    def __call__(self, index: int, *args: Any) -> None:
        """Call it."""
        if not _installed():
            self.fn(self.first + index, *args)
            return
        names = ("torch_xla", "torch_xla.core.xla_model", "torch_xla.runtime")
        xla, model, runtime = cast("list[Any]", [import_module(name) for name in names])
        found: list[str] = [str(d) for d in model.get_xla_supported_devices()]
        if len(found) > 1:
            raise RuntimeError(
                f"this rank has {len(found)} XLA devices, as on a TPU v2 or v3: "
                "on PJRT, procession.xla runs ranks with one device each"
            )
        if self.world_size > 1:
            model.set_replication(xla.device(), found)
        # Remembers rank and world size, so that torch.compile need not break its graphs for them.
        remember = getattr(runtime, "_init_world_size_ordinal", None)
        if remember is not None:
            remember()
        self.fn(runtime.global_ordinal(), *args)


def _print(error: Exception, device: str) -> None:
    """Write an exception to stderr, with the last frames that are the user's."""
    import traceback

    from procession.worker.description import text_of

    print(f"Exception in device={device}: {text_of(error)}", file=sys.stderr)
    frames = error.__traceback__.tb_next if error.__traceback__ else None  # without our own
    traceback.print_exception(type(error), error, frames, limit=-FRAMES, file=sys.stderr)


# -- torch_xla


def _installed() -> bool:
    return find_spec("torch_xla") is not None
