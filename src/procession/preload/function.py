"""What the ranks of a function will import of what their launcher has loaded.

Theory of operation. A rank imports the modules that the pickles of the function and its arguments
name. A local module among them imports others as it is run; which, is seen from what it holds: a
module, or something that another module made. What functions import when they are called is seen
from their code. So the launcher's own modules are followed, from those that the pickles name, up to
modules of the list. What the launcher has loaded besides is of no use to the ranks.

Rejected: all that the launcher has loaded. A process that has torch would spend a second on it
before the first rank of a function that has nothing to do with torch.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType

from procession.preload import safe
from procession.preload.find import Kind, Search, with_packages
from procession.preload.later import later
from procession.preload.plan import Plan

_IMPORT_NAME = opcode.opmap["IMPORT_NAME"]
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]


def plan_function(
    named: Iterable[str],
    functions: Iterable[FunctionType],
    modules: Mapping[str, object],
    sys_path: Iterable[str],
) -> Plan:
    """Tell what can be preloaded for a function.

    named, functions: the modules that the pickles of it and its arguments name, and the functions
    that are in these. modules, sys_path: the launcher's `sys.modules` and `sys.path`.
    """
    search = Search(sys_path)
    codes = [name for f in functions for name in _imported_in(f.__code__)]
    wanted = _followed([*named, *codes], modules)
    taken: dict[str, None] = {}
    skipped: dict[str, str] = {}
    # Modules stand in the order in which their imports ended; packages are begun first.
    for name in [name for name in modules if name in wanted]:
        top = name.partition(".")[0]
        if search.find(top).kind is not Kind.INSTALLED:
            continue
        reason = safe.why_not(name, search)
        if reason:
            skipped[top] = reason
        else:
            taken.update(dict.fromkeys(n for n in with_packages(name) if _imports(modules, n)))
    # By value, a function may come from anywhere; what "__main__" holds always does.
    files = [
        (f.__code__.co_filename, str(f.__globals__.get("__package__") or ""))
        for f in functions
        if str(f.__module__).partition(".")[0] != "procession"  # what rebuilds code, of a checkout
        and search.find(str(f.__module__).partition(".")[0]).kind in (Kind.LOCAL, Kind.MISSING)
    ]
    foreseen = later(taken, search, dict.fromkeys(files), [n for n in named if n != "__main__"])
    return Plan(tuple(taken), tuple(skipped.items()), later=foreseen)


def _imports(modules: Mapping[str, object], name: str) -> bool:
    """Whether `import NAME` finds what is there under that name, which a package may have put."""
    spec = getattr(modules.get(name), "__spec__", None)
    return getattr(spec, "name", None) == name and getattr(spec, "has_location", False)


def _followed(names: list[str], modules: Mapping[str, object]) -> set[str]:
    """Follow modules to those that something is known of, and give these."""
    found: set[str] = set()
    followed: set[str] = {"__main__"}  # what it holds travels by value, as far as it is needed
    while names:
        name = names.pop()
        if name in followed or name not in modules:
            continue
        followed.add(name)
        top = name.partition(".")[0]
        if top == "procession" or top in sys.stdlib_module_names:
            continue  # the launcher has many that no rank needs, and they cost more than they save
        if safe.is_known(top):
            found.add(name)
        else:
            names += with_packages(name)
            names += _held(modules[name])
    return found


def _held(module: object) -> Iterator[str]:
    """Give the modules that a module holds, or that made what it holds."""
    name = getattr(module, "__name__", None)
    for value in list(vars(module).values()) if isinstance(module, ModuleType) else []:
        if isinstance(value, ModuleType):
            yield value.__name__
            continue
        maker = getattr(value, "__module__", None) if callable(value) else None
        if isinstance(maker, str):
            yield maker
        if isinstance(value, FunctionType) and maker == name:
            yield from _imported_in(value.__code__)


def _imported_in(code: CodeType) -> Iterator[str]:
    """Give the modules that code names in import statements, that of inner functions, too."""
    argument = 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = argument << 8 | low
        if operation == _IMPORT_NAME:
            yield code.co_names[argument]
        if operation != _EXTENDED_ARG:
            argument = 0
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imported_in(constant)
