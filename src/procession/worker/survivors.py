"""What is left of a program after its modules were taken apart: whether destructors must still run.

Theory of operation. Destructors, streams, suspended generators and callbacks of weak references
run code when an interpreter ends. For objects that the program's own modules referenced, it has run
by now. Objects with other references (an attribute of `sys`, a list in a preloaded module, a cache)
are destroyed only by the interpreter itself. So `finalizers_left` looks through all objects that
were made since the fork for one with a finalizer. For a few kinds nothing is lost if theirs does
not run: plain streams, which were flushed, and sockets. For anything else the interpreter must end.

Objects of native code that do something when they are freed, but have no finalizer, cannot be
recognised; in the standard library, only databases are known to be such.

Objects that the collector does not track are found by their class.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC
_OF_TYPES: Any = vars(type)
_MRO: Any = _OF_TYPES["__mro__"]
_NAMES: Any = _OF_TYPES["__dict__"]


def flush_files() -> None:
    """Flush the plain streams that are still referenced.

    Streams of the program's own classes do what their class says, when they are destroyed.
    """
    import _io

    kinds = (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom)
    for each in gc.get_objects():
        # Their type first: to look at other objects may run their code.
        if type(each) in kinds and each is not sys.stdout and each is not sys.stderr:
            try:
                if not each.closed:
                    each.flush()
            except Exception:
                pass  # the interpreter could not report it either


def finalizers_left(packages: frozenset[str], born: object) -> bool:
    """Whether something is left that does something when it is destroyed.

    packages: top-level packages that were there before the fork; their callbacks only free memory.
    born: a list that was made before the program began: if the collector does not show it any more,
    the program has hidden its objects (`gc.freeze`), and anything may be left.
    """
    harmless = _harmless()
    looks: dict[type, Callable[[Any], bool] | None] = {}
    objects: list[Any] = gc.get_objects()
    if not any(each is born for each in objects):
        return True
    for each in objects:
        kind: type[Any] = type(each)  # pyright: ignore[reportUnknownVariableType]
        if kind in looks:
            look = looks[kind]
        else:
            bases = _MRO.__get__(kind)
            look = None
            if weakref.ref in bases:
                look = functools.partial(_calls_back, packages)
            elif type in bases:
                look = _hides_objects
            elif kind not in harmless and _has_finalizer(kind):
                look = _WAITING.get(kind, bool)
            elif any(map(_is_database, bases)):
                look = bool
            looks[kind] = look
        if look is not None and (look is bool or look(each)):
            return True
    return False


def _harmless() -> set[type]:
    if sys.warnoptions:
        return set()  # unclosed files and sockets may be warned of
    import _io
    import _socket

    socket: Any = sys.modules.get("socket")
    return {
        _io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom, _io.BufferedReader, _io.FileIO,
        _io.BytesIO, _io.StringIO, _socket.socket, getattr(socket, "socket", _socket.socket),
    }  # fmt: skip


def _has_finalizer(kind: type) -> bool:
    return any("__del__" in _NAMES.__get__(base) for base in _MRO.__get__(kind))


# By kind: whether one that is suspended has statements left to run.
_WAITING: dict[type, Callable[[Any], bool]] = {
    GeneratorType: lambda each: each.gi_frame is not None and each.gi_frame.f_lasti >= 0,
    AsyncGeneratorType: lambda each: each.ag_frame is not None,
    CoroutineType: lambda each: each.cr_frame is not None,
}


def _calls_back(packages: frozenset[str], reference: Any) -> bool:
    callback = reference.__callback__
    if type(callback) is MethodType:
        callback = callback.__func__
    if type(callback) is not FunctionType:
        return type(callback).__module__ not in ("builtins", "_weakref")
    return str(callback.__module__).partition(".")[0] not in packages


def _is_database(kind: type) -> bool:
    """Whether this is SQLite's connection, which ends its transaction when it is freed."""
    return kind.__name__ == "Connection" and _NAMES.__get__(kind).get("__module__") == "sqlite3"


def _hides_objects(kind: type) -> bool:
    """Whether objects of a class have a destructor, and are not known to the collector."""
    return not kind.__flags__ & _COLLECTED and _has_finalizer(kind)
