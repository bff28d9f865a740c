"""What the ranks of a function will import.

Theory of operation. A rank imports the modules that the pickles of the function and its arguments
name, and those that the function's code names. They are read as a program is: a local module among
them imports others. What the launcher has loaded besides is of no use to the ranks.

Rejected: all that the launcher has loaded. A process that has torch would spend a second on it
before the first rank of a function that has nothing to do with torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType

from procession.preload.find import Kind
from procession.preload.plan import Plan
from procession.preload.read import Reader


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
    reader = Reader(tuple(sys_path))
    # What "__main__" holds travels by value, as far as it is needed.
    names = {*named, *(name for f in functions for name in _names_in(f.__code__))} - {"__main__"}
    for name in [name for name in modules if name in names]:
        # The launcher has many of the standard library that no rank needs; its own are there.
        if reader.kind_of(name) in (Kind.INSTALLED, Kind.LOCAL):
            reader.follow(name)
    # By value, a function may come from anywhere; what "__main__" holds always does.
    files = [
        (f.__code__.co_filename, str(f.__globals__.get("__package__") or ""))
        for f in functions
        if reader.kind_of(str(f.__module__)) in (Kind.LOCAL, Kind.MISSING)
    ]
    return reader.result(dict.fromkeys(files), [n for n in named if n != "__main__"])


def _names_in(code: CodeType) -> Iterator[str]:
    """Give the names in code and in inner code, those of modules that it imports among them."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
