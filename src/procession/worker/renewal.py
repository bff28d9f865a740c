"""State that modules create at import for one process, such as seeds: created anew in a fork.

A fresh interpreter would have its own seeds, key and clock; forks inherit those of the agent.
`tests/preload/test_sound_values.py` looks for such state in all modules that are preloaded
automatically.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any


def after_fork(printed: tuple[bytes, bytes], variables: dict[str, tuple[str, str | None]]) -> None:
    """Make a forked rank equal to a fresh interpreter that imported the same modules itself.

    variables: that the imports have set, each with its value, and the one that they found.
    """
    for name, (value, found) in variables.items():
        if os.environ.get(name) == found:
            os.environ[name] = value
    for fd, text in zip((1, 2), printed, strict=True):
        view = memoryview(text)
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            pass  # there is no reader
    renew()


def renew() -> None:
    """Renew the state of the modules that are imported; `random` does it by itself."""
    for name, make_anew in _RENEWED.items():
        module = sys.modules.get(name)
        if module is not None:
            try:
                make_anew(module)
            except AttributeError:
                pass  # a version without this state, or with another name for it


def _threading(module: Any) -> None:
    module.main_thread()._set_native_id()  # a fork in Python 3.11 keeps that of its parent


def _logging(module: Any) -> None:
    import time

    # `relativeCreated` counts from here; in nanoseconds since Python 3.13.
    module._startTime = type(module._startTime)(
        time.time_ns() if isinstance(module._startTime, int) else time.time()
    )


def _multiprocessing(module: Any) -> None:
    module.current_process().authkey = os.urandom(32)


def _numpy(module: Any) -> None:
    if hasattr(module, "set_bit_generator"):  # since numpy 1.24
        module.set_bit_generator(module.MT19937())
    else:
        module.seed()


def _torch(module: Any) -> None:
    module.default_generator.seed()  # the CPU's; those of devices always start with the same seed


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
