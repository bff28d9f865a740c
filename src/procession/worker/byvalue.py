"""What travels by name, and what by value: one rule for all that is pickled for ranks.

By name go classes, functions and modules that another interpreter finds under that name: a finder
finds the module where this process found it. All else goes by value: what is of the main program,
and of a module that was made at run time, loaded from a path or removed since.

Descriptors go beside a pickle (queues, pipes, tensors in shared memory). `multiprocessing` pickles
such an object with `DupFd(fd)` of the process that is being spawned. Our launcher returns an
`InheritedFd` there, which finds its descriptor in the rank.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType, ModuleType

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from typing import Any

MAIN = ("__main__", "__mp_main__")  # the second one under `multiprocessing`


def goes_by_name(obj: object) -> bool:
    """Tell whether a class, function or module is found by name; of other objects, True."""
    module = module_of(obj)
    return module is None or (module not in MAIN and _is_found(module))


def module_of(obj: object) -> str | None:
    """Name the module of a class or function, or a module; "" if it has none. Of others, None."""
    if not isinstance(obj, (type, FunctionType, ModuleType)):
        return None
    name = obj.__name__ if isinstance(obj, ModuleType) else obj.__module__
    return name if isinstance(name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]


def _is_found(name: str) -> bool:
    module, parent = sys.modules.get(name), name.rpartition(".")[0]
    if module is None or name.partition(".")[0] in sys.stdlib_module_names:
        return name != ""  # pickle itself refuses what is of a module that is not there
    if parent and not _is_found(parent):
        return False
    place = _place(module, getattr(module, "__spec__", None))
    path = getattr(sys.modules.get(parent), "__path__", None)
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:
            return True  # one that only its own package can ask
        if spec is not None:
            return _place(None, spec) == place
    return bool(parent) and place is None  # its package made it


def _place(module: object, spec: Any) -> str | None:
    return getattr(module, "__file__", None) if spec is None else spec.origin


def pickler(cloudpickle: Any, reducers: dict[Any, Any]) -> Any:
    """Make a class of picklers by value, which keep the file names of code.

    cloudpickle: the library, of which some versions replace these names. reducers: others than its.
    """
    table: dict[Any, Any] = {**cloudpickle.Pickler.dispatch_table, **reducers}
    reduced = table[CodeType]

    def reduce(code: CodeType) -> Any:
        return _rebuilt, (*reduced(code), code.co_filename)

    table[CodeType] = reduce
    return type("ByValue", (cloudpickle.Pickler,), {"dispatch_table": table})


def _rebuilt(make: Any, args: Any, filename: str) -> CodeType:
    return make(*args).replace(co_filename=filename)


_inherited: list[int] = []


def set_inherited(fds: list[int]) -> None:
    """Say which descriptors this rank inherited for its arguments, in the launcher's order."""
    _inherited[:] = fds


class InheritedFd:
    """The descriptor with this index; what `multiprocessing` calls a duplicated handle."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """Give the descriptor, which belongs to the caller from now on."""
        return _inherited[self._index]


def refuse_fork_lock(obj: Any) -> None:
    """Raise RuntimeError for a lock of `multiprocessing`'s fork context.

    Such a lock has no name, only an address in the memory of the process that made it, and of its
    forks: in any other process its use is a segmentation fault. Not every CPython refuses to pickle
    it (Debian 12's 3.11.2 does not). Conditions, events, queues and the like contain such locks.
    """
    synchronize = sys.modules.get("multiprocessing.synchronize")
    if synchronize is None or not issubclass(type(obj), synchronize.SemLock):
        return
    if obj._semlock.name is None:
        raise RuntimeError("a lock of multiprocessing's fork context can be used in forks only")
