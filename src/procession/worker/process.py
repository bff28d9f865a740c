"""Functions that are called in a process like `multiprocessing`'s.

Theory of operation. A program may define things in its main module that ranks need. As under
`multiprocessing`, a rank can import that module again, under the name `__mp_main__`, before it
unpickles its function and arguments: then the statements of that module (seeds, log levels, default
types) run in the rank, too. `Again` is a pickle that does so; `ByValue` is for functions that are
sent by value, without the main module. Both call the function through another one, `how`, for
example `drop`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Identity = dict[str, Any]


class ByValue:
    """A function that does not need the main module: from another one, in a fork, or by value."""

    def __init__(self, how: Callable[..., Any], func: Callable[..., Any]) -> None:
        self.how = how
        self.func = func

    def __call__(self, *args: Any, identity: Identity) -> Any:
        """Call it. identity: who this process is, see `become`."""
        become(identity)
        return self.how(self.func, *args)


class Again:
    """A function and its arguments, by reference, unpickled after main was imported again."""

    def __init__(
        self,
        identity: Identity,
        how: Callable[..., Any],
        func: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        self.identity = identity
        self.how = how
        self.func = func
        self.args = args

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import ForkingPickler

        from procession.worker.byvalue import MAIN, goes_by_name, module_of, refuse_fork_lock

        class Pickler(ForkingPickler):
            def reducer_override(self, obj: Any, /) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
                refuse_fork_lock(obj)
                if module_of(obj) not in MAIN and not goes_by_name(obj):
                    raise TypeError(f"{obj!r} goes by value")
                return NotImplemented

        body = Pickler.dumps((self.how, self.func, self.args))
        return _load, (self.identity, bytes(body))


def call(again: Any) -> Any:
    """Call the function of what was an `Again` before it was pickled."""
    how, func, args = again
    return how(func, *args)


def drop(func: Callable[..., Any], *args: Any) -> None:
    """Call a function, and drop its value."""
    func(*args)


def _load(identity: Identity, body: bytes) -> Any:
    import multiprocessing
    import pickle

    current: Any = multiprocessing.current_process()
    current._inheriting = True  # no process may be started while this is set
    try:
        become(identity)
        return pickle.loads(body)
    finally:
        del current._inheriting


def become(identity: Identity) -> None:
    """Make this process look like one of `multiprocessing`.

    identity: `name`, `number` (a tuple) and `daemon` of the process; `parent`: name and pid of the
    launcher; `preparation`: as from `multiprocessing.spawn.get_preparation_data`, None in a fork.
    """
    import os
    from multiprocessing import process as _process
    from multiprocessing import spawn as _spawn

    from procession.worker.streams import write_whole_lines

    write_whole_lines()
    process: Any = _process
    spawn: Any = _spawn
    parent_name, parent_pid = identity["parent"]
    current = process.current_process()
    current.name = identity["name"]
    current._identity = identity["number"]
    current.daemon = identity["daemon"]
    sentinel = os.pidfd_open(parent_pid)
    process._parent_process = process._ParentProcess(parent_name, parent_pid, sentinel)
    if identity["preparation"] is not None:
        spawn.prepare(identity["preparation"])
