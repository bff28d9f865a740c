"""Whether a program that is over has objects left that do something when they are destroyed.

Destructors, streams, suspended generators and callbacks of weak references run code when an
interpreter ends. `finalizers_left` looks through all objects that were made since the fork for one
of these. For a few kinds nothing is lost if theirs does not run: plain streams, which are flushed
(`flush_files`), and sockets.

Objects of native code that do something when they are freed, but have no finalizer, cannot be
recognised; in the standard library, only databases are known to be such. Objects that the collector
does not track are found by their class.
"""

from __future__ import annotations

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
    """Flush the plain streams of the program."""
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
    the program has hidden its objects (`gc.freeze`), and anything may be left. To count those that
    are hidden would take as long as to touch each of them: 7 ms with torch.
    """
    objects: list[Any] = gc.get_objects()
    if not any(each is born for each in objects):
        return True
    acts: dict[type, bool | Callable[[Any], bool]] = dict.fromkeys(_harmless(), False)
    acts.update(
        dict.fromkeys((GeneratorType, AsyncGeneratorType, CoroutineType), _is_suspended),
    )
    for each in objects:
        kind: type[Any] = type(each)  # pyright: ignore[reportUnknownVariableType]
        if kind not in acts:
            bases = _MRO.__get__(kind)
            if weakref.ref in bases:
                acts[kind] = lambda each: _calls_back(each, packages)
            elif type in bases:
                acts[kind] = _hides_objects
            else:
                acts[kind] = _has_finalizer(bases)
        act = acts[kind]
        if act if isinstance(act, bool) else act(each):
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


def _has_finalizer(bases: tuple[type, ...]) -> bool:
    """Whether a class, given with its bases, has one, or is SQLite's connection.

    That ends its transaction when it is freed.
    """
    names = [(base.__name__, _NAMES.__get__(base)) for base in bases]
    return any(
        "__del__" in has or (name == "Connection" and has.get("__module__") == "sqlite3")
        for name, has in names
    )


def _is_suspended(each: Any) -> bool:
    frames = (getattr(each, name, None) for name in ("gi_frame", "ag_frame", "cr_frame"))
    return any(frame is not None for frame in frames)


def _calls_back(reference: Any, packages: frozenset[str]) -> bool:
    callback = reference.__callback__
    if type(callback) is MethodType:
        callback = callback.__func__
    if type(callback) is not FunctionType:
        return type(callback).__module__ not in ("builtins", "_weakref")
    return str(callback.__module__).partition(".")[0] not in packages


def _hides_objects(kind: type) -> bool:
    """Whether objects of a class have a destructor, and are not known to the collector."""
    return not kind.__flags__ & _COLLECTED and _has_finalizer(_MRO.__get__(kind))
