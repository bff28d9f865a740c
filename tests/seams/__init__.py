"""The names inside of procession that tests use, by subject.

A test that needs something from inside of the package imports it from here: when a file is moved or
split, only the lines here change. What users may import (`procession`, its drop-ins, and
`procession.devices`) is imported from where users do.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(places: Mapping[str, str]) -> Callable[[str], Any]:
    """Give the `__getattr__` of a module that has these names, each imported when it is asked for.

    places: by module, the names that come from it, with spaces between them; a name may be that of
    a module within.
    """
    module_of = {name: module for module, names in places.items() for name in names.split()}

    def getattr_(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(name)
        module = import_module(module_of[name])
        if not hasattr(module, name):
            import_module(f"{module_of[name]}.{name}")
        return getattr(module, name)

    getattr_.module_of = module_of
    return getattr_
