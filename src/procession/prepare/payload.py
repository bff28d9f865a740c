"""Functions and their arguments on the way to the ranks: pickles in memory files, and descriptors.

The pickles (see `pickling`) lie in memory files (memfd), so that no process in between has to hold
them, and ranks with common arguments share one. A function that is to run on other machines is
packed (`pack`) where the user calls it, and there its pickles go into the memory files as they are.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from procession.system.files import fill_standard, named
from procession.values.base import Value
from procession.values.errors import SpecError
from procession.values.program import Function, Module, Program, Script, default_name
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Any

    from procession.prepare.pickling import Named, Spawning

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


class Packed(Value):
    """A function as it travels to another machine, in place of the callable.

    function: its pickle. arguments: pickles of (args, kwargs), by rank, or one for all ranks.
    description: what the bootstrap of a rank gets besides. called: its name.
    """

    function: bytes
    arguments: tuple[bytes, ...]
    description: dict[str, Any]
    called: str

    @property
    def __name__(self) -> str:
        """The name of the function, for people."""
        return self.called


def pack(spec: Spec) -> tuple[Packed, Named]:
    """Pack the function of a group, and its arguments; also gives what its pickles name.

    Raises SpecError for what cannot be pickled, or belongs to this machine.
    """
    from procession.prepare.pickling import Named

    assert isinstance(spec.program, Function)
    named = Named(set(), [])
    noted: list[Spawning] = []
    try:
        function, *arguments = _pickles(spec, noted, named)
        if any(each.fds for each in noted):
            raise SpecError(
                "the function or its arguments hold what only this machine has (a queue, a pipe or "
                "shared memory of multiprocessing): pass plain data instead"
            )
    finally:
        for each in noted:
            each.close()
    description = {**_described_launcher(), "authkey": None}
    called = default_name(spec.program)
    return Packed(function, tuple(arguments), description, called), named


def _pickles(spec: Spec, noted: list[Spawning], named: Named) -> Iterator[bytes]:
    """Pickle the function of a group, then its arguments: by rank, or once for all ranks.

    noted, named: get what each of these refers to. Raises SpecError, and OSError.
    """
    from procession.prepare.pickling import Spawning, pickled

    assert isinstance(spec.program, Function)
    noted.append(Spawning())
    yield pickled(spec.program.call, "the function", noted[0], named)
    for rank in range(1 if spec.common_args else spec.nproc):
        whose = "" if spec.common_args else f"rank {rank}: "
        given = (spec.args[rank], dict(spec.kwargs[rank]))
        noted.append(Spawning(len(noted[0].fds)))
        yield pickled(given, f"{whose}the arguments", noted[-1], named)


class Payload:
    """What the ranks of a group run, ready to be sent; `close` when the group has ended.

    Functions and arguments are pickled by `make`, which belongs into the thread that asks for the
    group: what they pickle may depend on its context variables and thread-locals. It may be broken
    off by a KeyboardInterrupt at any point, and then holds nothing.

    modules, functions: what the pickles of a function and its arguments name.
    """

    def __init__(self) -> None:
        self._owned: list[int] = []
        self._roles: dict[str, int] = {}  # of the descriptors that all ranks need
        self._own: list[int] = []  # those of the arguments, by rank
        self._spawning: list[Spawning] = []  # of the function; then of the arguments, by rank
        self._function: dict[str, Any] = {}
        self.modules: set[str] = set()
        self.functions: list[FunctionType] = []

    def fill_standard(self) -> None:
        """Hold the standard descriptors that this process lacks, before threads open others."""
        self._owned.extend(fill_standard())

    def make(self, spec: Spec) -> None:
        """Pickle what there is to be pickled. Raises SpecError, and OSError."""
        try:
            self._make(spec)
        except BaseException:
            self.close()
            raise

    def description(self, program: Program) -> dict[str, Any]:
        """Describe a program for the bootstrap of a rank."""
        if isinstance(program, Script):
            return {"kind": "script", "path": program.path, "args": list(program.args)}
        if isinstance(program, Module):
            return {"kind": "module", "name": program.name, "args": list(program.args)}
        return dict(self._function)

    def fds(self, rank: int) -> dict[str, int]:
        """Give the descriptors that a rank needs, by role."""
        own = {"own": self._own[rank % len(self._own)]} if self._own else {}
        return {**self._roles, **own}

    def inherited(self, rank: int) -> list[int]:
        """Give the descriptors that a rank's pickled objects refer to, in order."""
        if not self._spawning:
            return []
        function, *own = self._spawning
        return [*function.fds, *own[rank % len(own)].fds]

    def close(self) -> None:
        """Close what this holds."""
        owned, spawning = [*self._owned], [*self._spawning]
        self._owned.clear()
        self._spawning.clear()
        for fd in owned:
            os.close(fd)
        for each in spawning:
            each.close()

    # -- making it

    def _make(self, spec: Spec) -> None:
        program = spec.program
        if not isinstance(program, Function):
            return
        if spec.start_method == "fork":
            self._function = {"kind": "live"}
        elif isinstance(program.call, Packed):
            packed = program.call
            self._hold([packed.function, *packed.arguments])
            self._function = packed.description
        else:
            self._pickle(spec)

    def _hold(self, pickles: Iterable[bytes]) -> None:
        self._roles["common"], *self._own = map(self._memory_file, pickles)

    def _pickle(self, spec: Spec) -> None:
        from procession.prepare.pickling import Named

        named = Named(self.modules, self.functions)
        self._hold(_pickles(spec, self._spawning, named))
        if spec.shared is not None:
            self._make_shared(spec.shared, named)
        multiprocessing = sys.modules.get("multiprocessing")
        tracker = sys.modules.get("multiprocessing.resource_tracker")
        tracker_fd = getattr(getattr(tracker, "_resource_tracker", None), "_fd", None)
        if tracker_fd is not None:
            self._roles["tracker"] = self._own_new(os.dup, tracker_fd)
        self._function = {
            **_described_launcher(),
            "authkey": bytes(multiprocessing.current_process().authkey)
            if multiprocessing is not None
            else None,
        }

    def _make_shared(self, load: Any, named: Named) -> None:
        from procession.prepare.pickling import Spawning, pickled

        spawning = Spawning()
        try:
            self._roles["shared"] = self._memory_file(pickled(load, "shared", spawning, named))
            if spawning.fds:
                raise SpecError(
                    "shared holds a queue, a pipe or shared memory of multiprocessing: give these "
                    "to ranks as arguments"
                )
        finally:
            spawning.close()

    def _memory_file(self, body: bytes) -> int:
        """Make a memory file that cannot be changed: the next attempt reads it again."""
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        try:
            fd = self._own_new(os.memfd_create, "procession-arguments", flags)
        except OSError as e:
            raise named("memfd_create", e) from None
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        return fd

    def _own_new(self, make: Callable[..., int], *args: Any) -> int:
        """Make a descriptor and own it, in one step: nothing can be raised in between."""
        self._owned.extend(map(make, *((arg,) for arg in args)))
        return self._owned[-1]


def _described_launcher() -> dict[str, Any]:
    return {
        "kind": "function",
        "sys_path": [os.path.abspath(p) for p in sys.path],
        "sys_argv": list(sys.argv),
        "sources": _cell_sources(),
    }


def _cell_sources() -> dict[str, list[str]]:
    """Give the source of code that is in no file, such as notebook cells, by its file name."""
    linecache = sys.modules.get("linecache")
    if linecache is None:
        return {}
    known = dict(linecache.cache).items()
    return {n: list(e[2]) for n, e in known if len(e) == 4 and not os.path.exists(n)}
