"""Functions and their arguments on the way to the ranks: pickles in memory files, and descriptors.

The pickles (see `pickling`) lie in memory files (memfd), so that no process in between has to hold
them, and ranks with common arguments share one. A function that is to run on other machines is
packed (`pack`) where the user calls it, and there its pickles go into the memory files as they are.
"""

from __future__ import annotations

import os
import sys

from procession.errors import SpecError
from procession.named import Named
from procession.spec import Function, Module, Program, Script, Spec
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pickling import Spawning


class Packed(Value):
    """A function as it travels to another machine, in place of the callable.

    function: its pickle. arguments: pickles of (args, kwargs), by rank, or one for all ranks.
    told: what ranks are told besides.
    """

    function: bytes
    arguments: tuple[bytes, ...]
    told: dict[str, Any]


def pack(spec: Spec) -> tuple[Packed, Named]:
    """Pack the function of a group, and its arguments; also gives what its pickles name.

    Raises SpecError for what cannot be pickled, or belongs to this machine.
    """
    from procession.pickling import Spawning, pickled

    assert isinstance(spec.program, Function)
    named, spawning = Named(set(), []), Spawning()
    try:
        function = pickled(spec.program.call, "the function", spawning, named)
        arguments: list[bytes] = []
        for rank in range(1 if spec.common_args else spec.nproc):
            whose = "" if spec.common_args else f"rank {rank}: "
            given = (spec.args[rank], dict(spec.kwargs[rank]))
            arguments.append(pickled(given, f"{whose}the arguments", spawning, named))
        if spawning.fds:
            raise SpecError(
                "the function or its arguments hold what only this machine has (a queue, a pipe or "
                "shared memory of multiprocessing): pass plain data instead"
            )
    finally:
        for fd in spawning.fds:
            os.close(fd)
    told = {**_told_of_launcher(), "authkey": None}
    return Packed(function, tuple(arguments), told), named


class Payload:
    """What the ranks of a group run, ready to be sent; `close` when the group has ended.

    named: what the pickles of a function and its arguments name.
    """

    def __init__(self, spec: Spec) -> None:
        self._owned: list[int] = []
        self._own: list[int] = []
        self._common = -1
        self._tracker = -1
        self._spawning: list[Spawning] = []  # of the function; then of the arguments, by rank
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
        if not self._spawning:
            return []
        function, *own = self._spawning
        return [*function.fds, *own[rank % len(own)].fds]

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
        from procession.pickling import Spawning, pickled

        if isinstance(program.call, Packed):
            packed = program.call
            self._common = self._memory_file(packed.function)
            self._own = [self._memory_file(body) for body in packed.arguments]
            self._function = packed.told
            return
        self._spawning.append(Spawning())
        body = pickled(program.call, "the function", self._spawning[0], self.named)
        self._common = self._memory_file(body)
        for rank in range(1 if spec.common_args else spec.nproc):
            whose = "" if spec.common_args else f"rank {rank}: "
            given = (spec.args[rank], dict(spec.kwargs[rank]))
            self._spawning.append(Spawning(len(self._spawning[0].fds)))
            body = pickled(given, f"{whose}the arguments", self._spawning[-1], self.named)
            self._own.append(self._memory_file(body))
        multiprocessing = sys.modules.get("multiprocessing")
        tracker = sys.modules.get("multiprocessing.resource_tracker")
        tracker_fd = getattr(getattr(tracker, "_resource_tracker", None), "_fd", None)
        if tracker_fd is not None:
            self._tracker = os.dup(tracker_fd)
            self._owned.append(self._tracker)
        self._function = {
            **_told_of_launcher(),
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


def _told_of_launcher() -> dict[str, Any]:
    return {
        "kind": "function",
        "sys_path": [os.path.abspath(p) for p in sys.path],
        "sys_argv": list(sys.argv),
        "sources": _cell_sources(),
    }


def _cell_sources() -> dict[str, list[str]]:
    """Give the lines of code that is in no file, of notebook cells for one, by its file name."""
    linecache = sys.modules.get("linecache")
    if linecache is None:
        return {}
    known = dict(linecache.cache).items()
    return {n: list(e[2]) for n, e in known if len(e) == 4 and not os.path.exists(n)}
