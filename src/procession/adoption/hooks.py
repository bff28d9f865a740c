"""Gives two functions of torch other code, as soon as their modules are imported.

Theory of operation. A finder stands before all others in `sys.meta_path`. It finds nothing by
itself: for the two modules it asks the others, and has `_replace` called when the module has run.
Modules that are there already are changed at once. What is changed is the code of the function
(`__code__`), not the module's attribute: a function that somebody has imported before by its name
is the same object, and so it does not matter who imported what, and when.

Rejected: to set attributes of modules, which misses `from torch.multiprocessing import spawn`; to
put modules of ours into `sys.modules`, which lack what else torch's have.

This is imported by interpreters at their start: the standard library only, and little of it.
"""

from __future__ import annotations

import sys
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def _start_elastic(*args: Any, **kwargs: Any) -> Any:
    import importlib

    return importlib.import_module("procession.elastic.api").start_processes(*args, **kwargs)


def _start_processes(*args: Any, **kwargs: Any) -> Any:
    import importlib

    ours = importlib.import_module("procession.multiprocessing.adopted")
    return ours.start_processes(*args, **kwargs)


ELASTIC = "torch.distributed.elastic.multiprocessing"
SPAWN = "torch.multiprocessing.spawn"

# By module: the code that its `start_processes` gets. The code runs in torch's module: it can use
# no name of this one.
REPLACED = {ELASTIC: _start_elastic, SPAWN: _start_processes}

replaced: set[str] = set()  # the modules whose function has our code


class Finder:
    """Finds the two modules by the other finders, and has a loader replace what is in them."""

    def __init__(self) -> None:
        self._busy: set[str] = set()  # other finders of this kind ask all others, too

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module, as the import system asks for it."""
        if name not in REPLACED or name in self._busy:
            return None
        from importlib.util import find_spec

        self._busy.add(name)
        try:
            spec: Any = find_spec(name)
        finally:
            self._busy.discard(name)
        if hasattr(getattr(spec, "loader", None), "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """Loads a module as its own loader does, and then replaces its function."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _replace(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_finder: Any = Finder()


def _replace(module: ModuleType) -> None:
    """Replace `start_processes` of a module; one that is not as we know it is left as it is."""
    function = getattr(module, "start_processes", None)
    if not isinstance(function, FunctionType) or function.__closure__:
        import logging

        logging.getLogger("procession.adoption").warning(
            "%s.start_processes of this torch is not a function that procession knows: "
            "it stays torch's [P415]",
            module.__name__,
        )
        return
    import inspect  # torch has imported it

    vars(function)["__signature__"] = inspect.signature(function)
    # The new code takes whatever it is given: defaults are the caller's or ours to fill in.
    function.__defaults__, function.__kwdefaults__ = None, None  # type: ignore[assignment]
    function.__code__ = REPLACED[module.__name__].__code__
    replaced.add(module.__name__)


def install() -> None:
    """Have the functions replaced, now or when their modules are imported."""
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    for name in REPLACED:
        module = sys.modules.get(name)
        if module is not None:
            _replace(module)
