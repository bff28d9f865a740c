"""What modules made for one process as they were imported: made anew in a fork that has them.

A fresh interpreter would have its own seeds, key and clock; forks begin with those of the process
that they were forked from. `tests/preload/test_sound_values.py` looks for such things in all that
is preloaded without being asked for.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any


def renew() -> None:
    """Give this process its own; `random` sees to itself."""
    for name, make_anew in _RENEWED.items():
        module = sys.modules.get(name)
        if module is not None:
            try:
                make_anew(module)
            except AttributeError:
                pass  # a version that has nothing of the kind, or not under this name


def _threading(module: Any) -> None:
    module.main_thread()._set_native_id()  # a fork in Python 3.11 keeps that of its parent


def _logging(module: Any) -> None:
    import time

    # `relativeCreated` counts from here; in nanoseconds since Python 3.13.
    module._startTime = type(module._startTime)(
        time.time_ns() if isinstance(module._startTime, int) else time.time()
    )


def _multiprocessing(module: Any) -> None:
    import os

    module.current_process().authkey = os.urandom(32)


def _numpy(module: Any) -> None:
    if hasattr(module, "set_bit_generator"):  # since numpy 1.24
        module.set_bit_generator(module.MT19937())
    else:
        module.seed()


def _torch(module: Any) -> None:
    module.default_generator.seed()  # of the CPU; devices' begin with one that is always the same


def _sympy(module: Any) -> None:
    module.rng.seed()
    module._assumptions_rng.seed()


def _sympy_symbol(module: Any) -> None:
    dummy = module.Dummy
    dummy._prng.seed()
    dummy._base_dummy_index = dummy._prng.randint(10**6, 9 * 10**6)


_RENEWED = {
    "threading": _threading,
    "logging": _logging,
    "multiprocessing.process": _multiprocessing,
    "numpy.random": _numpy,
    "torch": _torch,
    "sympy.core.random": _sympy,
    "sympy.core.symbol": _sympy_symbol,
}
