"""How functions and arguments are pickled for ranks: by reference if that can be, else by value.

Theory of operation. What can be found by name in another interpreter (`worker.byvalue` has the
rule) is pickled by reference, which is fast; as soon as anything else turns up, cloudpickle pickles
it all, and by value what cannot be found by name. Both paths honour the reducers that libraries
register with `multiprocessing` (queues, locks, shared memory, torch's tensors), and both are run as
`multiprocessing` runs them, "while spawning": a descriptor that such an object needs is then noted
here, and travels to the rank beside the pickle.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import sys
from collections import ChainMap
from threading import RLock
from types import FunctionType, ModuleType

from procession.values.base import Value, cast
from procession.values.errors import SpecError
from procession.worker import byvalue
from procession.worker.byvalue import InheritedFd, refuse_fork_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_registry = RLock()  # cloudpickle has one list of the modules that go by value


class _ByValue(Exception):
    """Something can only go by value."""


class Named(Value):
    """What pickles name: modules, which the rank will import, and functions."""

    modules: set[str]
    functions: list[FunctionType]

    def note(self, obj: Any) -> None:
        """Take note of an object that is pickled."""
        if isinstance(obj, ModuleType):
            self.modules.add(obj.__name__)
            return
        if isinstance(obj, FunctionType):
            self.functions.append(obj)
        module = getattr(
            obj if isinstance(obj, (type, FunctionType)) else type(obj), "__module__", 0
        )
        if isinstance(module, str):
            self.modules.add(module)


class Spawning:
    """Stands where `multiprocessing` looks for the process that is being spawned.

    first: the index of the first descriptor that is noted here.
    """

    def __init__(self, first: int = 0) -> None:
        self.fds: list[int] = []
        self._first = first

    def duplicate_for_child(self, fd: int) -> int:
        """Keep a duplicate of a descriptor; gives its place among those of the rank."""
        self.fds.extend(map(os.dup, (fd,)))  # in one step, in which nothing can be raised
        return self._first + len(self.fds) - 1

    def close(self) -> None:
        """Close these duplicates."""
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()

    def DupFd(self, index: int) -> InheritedFd:  # noqa: N802 - multiprocessing's name
        """Give what stands for the descriptor in the pickle."""
        return InheritedFd(index)


def pickled(thing: Any, what: str, spawning: Spawning, named: Named) -> bytes:
    """Pickle a function, or (args, kwargs); `what` names it in errors.

    What it refers to is noted in `spawning` and `named`. Raises SpecError, and OSError.
    """
    try:
        return _dump(thing, spawning, named)
    except OSError:
        raise
    except Exception as e:
        _refuse(thing, what, e)


def _dump(thing: Any, spawning: Spawning, named: Named) -> bytes:
    context = sys.modules.get("multiprocessing.context")
    if context is None:  # then there is nothing of multiprocessing in it, either
        return _dump_any(thing, named)
    before = context.get_spawning_popen()
    context.set_spawning_popen(spawning)
    try:
        return _dump_any(thing, named)
    finally:
        context.set_spawning_popen(before)


def _dump_any(thing: Any, named: Named) -> bytes:
    try:
        buffer = io.BytesIO()
        _ByReference(buffer, named).dump(thing)
        return buffer.getvalue()
    except OSError:
        raise
    except Exception:
        pass  # what cannot go by value either fails below, and says why
    import cloudpickle

    library: Any = cloudpickle
    sent = {"__main__"}  # modules whose classes and functions go by value

    class ByValue(byvalue.pickler(library, _reducers())):
        def reducer_override(self, obj: Any) -> Any:
            refuse_fork_lock(obj)
            named.note(obj)
            module = byvalue.module_of(obj)
            if module in sys.modules and module not in sent and not byvalue.goes_by_name(obj):
                sent.add(module)
                library.register_pickle_by_value(sys.modules[module])
            return library.Pickler.reducer_override(self, obj)

    buffer = io.BytesIO()
    with _registry:
        before: set[str] = library.list_registry_pickle_by_value()
        try:
            ByValue(buffer, protocol=5).dump(thing)
        finally:
            for name in sent & library.list_registry_pickle_by_value() - before:
                library.unregister_pickle_by_value(sys.modules[name])
    return buffer.getvalue()


def _reducers() -> dict[Any, Any]:
    """Give the reducers that are registered with multiprocessing."""
    reduction = sys.modules.get("multiprocessing.reduction")
    return dict(reduction.ForkingPickler._extra_reducers) if reduction is not None else {}


class _ByReference(pickle.Pickler):
    """Pickles by reference, and gives up on what another interpreter would not find."""

    def __init__(self, buffer: io.BytesIO, named: Named) -> None:
        super().__init__(buffer, protocol=5)
        self._named = named
        self.dispatch_table = ChainMap(_reducers(), copyreg.dispatch_table)

    def reducer_override(self, obj: Any, /) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not byvalue.goes_by_name(obj):
            raise _ByValue
        refuse_fork_lock(obj)
        self._named.note(obj)
        return NotImplemented


def _refuse(thing: Any, what: str, error: Exception) -> NoReturn:
    """Say which argument cannot be pickled. Raises SpecError."""
    if what.endswith("the arguments"):
        args, kwargs = cast("tuple[tuple[Any, ...], dict[str, Any]]", thing)
        named = [(f"argument {i}", a) for i, a in enumerate(args)]
        named += [(f"argument {k!r}", v) for k, v in kwargs.items()]
        for name, value in named:
            spawning = Spawning()
            try:
                _dump(value, spawning, Named(set(), []))
            except Exception as e:
                whose = what.removesuffix("the arguments")
                what, thing, error = f"{whose}{name}", value, e
                break
            finally:
                spawning.close()
    text = " ".join(str(error).split()) or type(error).__name__
    hint = ""
    if "context" in text or "inheritance" in text:
        hint = "; make it with multiprocessing.get_context('spawn'), or use start_method='fork'"
    raise SpecError(
        f"{what} ({type(thing).__name__}) cannot be pickled for the ranks: "
        f"{type(error).__name__}: {text}{hint}"
    ) from error
