"""Functions and their arguments on the way to the ranks: pickles in memory files, and descriptors.

Theory of operation. What can be found by name in another interpreter is pickled by reference, which
is fast; as soon as anything of `__main__` or a lambda, closure or local class turns up, all of it
goes by value, through cloudpickle. Both paths honour the reducers that libraries register with
`multiprocessing` (queues, locks, shared memory, torch's tensors), and both are run as
`multiprocessing` runs them, "while spawning": a descriptor that such an object needs is then noted
here, and travels to the rank beside the pickle. The pickles lie in memory files (memfd), so that no
process in between has to hold them, and ranks with common arguments share one.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import sys
from collections import ChainMap
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn, cast

from procession.errors import SpecError
from procession.spec import Function, Module, Program, Script, Spec
from procession.worker.inherit import InheritedFd


class _ByValue(Exception):
    """Something can only go by value."""


class _Spawning:
    """Stands where `multiprocessing` looks for the process that is being spawned.

    first: the index of the first descriptor that is noted here.
    """

    def __init__(self, first: int = 0) -> None:
        self.fds: list[int] = []
        self._first = first

    def duplicate_for_child(self, fd: int) -> int:
        self.fds.append(os.dup(fd))
        return self._first + len(self.fds) - 1

    def DupFd(self, index: int) -> InheritedFd:  # noqa: N802 - multiprocessing's name
        return InheritedFd(index)


class Named(NamedTuple):
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


class Payload:
    """What the ranks of a group run, ready to be sent; `close` when the group has ended.

    named: what the pickles of a function and its arguments name.
    """

    def __init__(self, spec: Spec) -> None:
        self._owned: list[int] = []
        self._own: list[int] = []
        self._common = -1
        self._tracker = -1
        self._spawning = [_Spawning()]  # of the function; then of the arguments, by rank
        self._function: dict[str, Any] = {}
        self.named = Named(set(), [])
        try:
            self._make(spec)
        except BaseException:
            self.close()
            raise

    def told(self, program: Program) -> dict[str, Any]:
        """Give what a rank is told of its program."""
        if isinstance(program, Script):
            return {"kind": "script", "path": program.path, "args": list(program.args)}
        if isinstance(program, Module):
            return {"kind": "module", "name": program.name, "args": list(program.args)}
        return dict(self._function)

    def fds(self, rank: int) -> dict[str, int]:
        """Give the descriptors that a rank needs, by role."""
        roles: dict[str, int] = {}
        if self._common >= 0:
            roles["common"] = self._common
            roles["own"] = self._own[rank % len(self._own)]
        if self._tracker >= 0:
            roles["tracker"] = self._tracker
        return roles

    def inherited(self, rank: int) -> list[int]:
        """Give the descriptors that a rank's pickled objects refer to, in order."""
        own = self._spawning[1:]
        return [*self._spawning[0].fds, *(own[rank % len(own)].fds if own else ())]

    def close(self) -> None:
        """Close what this holds."""
        for fd in (*self._owned, *(fd for each in self._spawning for fd in each.fds)):
            os.close(fd)
        self._owned.clear()
        self._spawning.clear()

    # -- making it

    def _make(self, spec: Spec) -> None:
        if not isinstance(spec.program, Function):
            return
        if spec.start_method == "fork":
            self._function = {"kind": "live"}
        else:
            self._make_function(spec.program, spec)

    def _make_function(self, program: Function, spec: Spec) -> None:
        self._common = self._memory_file(self._pickled(program.call, "the function"))
        for rank in range(1 if spec.common_args else spec.nproc):
            whose = "" if spec.common_args else f"rank {rank}: "
            given = (spec.args[rank], dict(spec.kwargs[rank]))
            self._spawning.append(_Spawning(len(self._spawning[0].fds)))
            self._own.append(self._memory_file(self._pickled(given, f"{whose}the arguments")))
        multiprocessing = sys.modules.get("multiprocessing")
        tracker = sys.modules.get("multiprocessing.resource_tracker")
        tracker_fd = getattr(getattr(tracker, "_resource_tracker", None), "_fd", None)
        if tracker_fd is not None:
            self._tracker = os.dup(tracker_fd)
            self._owned.append(self._tracker)
        self._function = {
            "kind": "function",
            "sys_path": [os.path.abspath(p) for p in sys.path],
            "sys_argv": list(sys.argv),
            "sources": _cell_sources(),
            "authkey": bytes(multiprocessing.current_process().authkey)
            if multiprocessing is not None
            else None,
        }

    def _memory_file(self, body: bytes) -> int:
        fd = os.memfd_create("procession-arguments", os.MFD_CLOEXEC)
        self._owned.append(fd)
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view) :]
        return fd

    def _pickled(self, thing: Any, what: str) -> bytes:
        try:
            return _dump(thing, self._spawning[-1], self.named)
        except OSError:
            raise
        except Exception as e:
            _refuse(thing, what, e)


def _cell_sources() -> dict[str, list[str]]:
    """Give the lines of code that is in no file, of notebook cells for one, by its file name."""
    linecache = sys.modules.get("linecache")
    if linecache is None:
        return {}
    known = dict(linecache.cache).items()
    return {n: list(e[2]) for n, e in known if len(e) == 4 and not os.path.exists(n)}


def _dump(thing: Any, spawning: _Spawning, named: Named) -> bytes:
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

    class ByValue(cloudpickle.Pickler):
        dispatch_table: Any = ChainMap(_reducers(), cast("Any", cloudpickle.Pickler).dispatch_table)

        def reducer_override(self, obj: Any) -> Any:
            named.note(obj)
            return cast("Any", super()).reducer_override(obj)

    buffer = io.BytesIO()
    cast("Any", ByValue(buffer, protocol=5)).dump(thing)
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
        if isinstance(obj, (type, FunctionType)) and obj.__module__ in ("__main__", None):
            raise _ByValue
        self._named.note(obj)
        return NotImplemented


def _refuse(thing: Any, what: str, error: Exception) -> NoReturn:
    """Say which argument cannot be pickled. Raises SpecError."""
    if what.endswith("the arguments"):
        args, kwargs = cast("tuple[tuple[Any, ...], dict[str, Any]]", thing)
        named = [(f"argument {i}", a) for i, a in enumerate(args)]
        named += [(f"argument {k!r}", v) for k, v in kwargs.items()]
        for name, value in named:
            spawning = _Spawning()
            try:
                _dump(value, spawning, Named(set(), []))
            except Exception as e:
                whose = what.removesuffix("the arguments")
                what, thing, error = f"{whose}{name}", value, e
                break
            finally:
                for fd in spawning.fds:
                    os.close(fd)
    text = " ".join(str(error).split()) or type(error).__name__
    hint = ""
    if "context" in text or "inheritance" in text:
        hint = "; make it with multiprocessing.get_context('spawn'), or use start_method='fork'"
    raise SpecError(
        f"{what} ({type(thing).__name__}) cannot be pickled for the ranks: "
        f"{type(error).__name__}: {text}{hint}"
    ) from error
