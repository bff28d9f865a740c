"""What travels by name, and what by value: one rule for all that is pickled for ranks.

By name go classes, functions and modules that another interpreter finds under that name: a finder
finds the module where this process found it, and its file has the code that was imported. All else
goes by value: what is of the main program, of a module that was made at run time, loaded from a
path or removed since, and of one that was edited since.
"""

from __future__ import annotations

import os
import sys
import time
from types import CodeType, FunctionType, ModuleType

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every rank would pay
if TYPE_CHECKING:
    from collections.abc import Iterator
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
            return _place(None, spec) == place and not _is_edited(module, place)
    return bool(parent) and place is None  # its package made it


def _place(module: object, spec: Any) -> str | None:
    return getattr(module, "__file__", None) if spec is None else spec.origin


def _is_edited(module: object, path: str | None) -> bool:
    """Tell whether a source has other code by now than a module that was imported from it."""
    if path is None or not path.endswith(".py"):
        return False
    try:
        if os.stat(path).st_mtime < _began():
            return False
        with open(path, "rb") as f:
            now = set(_codes(compile(f.read(), path, "exec", dont_inherit=True)))
    except (OSError, SyntaxError, ValueError):
        return True
    members = list(vars(module).values())
    members += [each for cls in members if isinstance(cls, type) for each in vars(cls).values()]
    codes = [each.__code__ for each in members if isinstance(each, FunctionType)]
    return any(code not in now for code in codes if code.co_filename == path)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _began() -> float:
    """Say when this process was started, or a second earlier, in seconds since the epoch."""
    try:
        with open("/proc/self/stat", "rb") as f:  # an interrupt leaves no descriptor
            fields = f.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0  # then all files are looked at
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot - 1


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
