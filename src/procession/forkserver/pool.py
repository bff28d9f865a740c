"""Forkservers that wait for the next launch.

A forkserver serves one group at a time, so that everything below it belongs to that group. When the
group is over and nothing is left below, it rests here for the next one, which then starts in
milliseconds. It can be used again by a launch that would start an equal one: same interpreter and
flags, same variables that an interpreter or the C library reads at its start, same limits.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType

from procession.forkserver import boot
from procession.forkserver.client import ForkServer
from procession.preload.variables import among
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[Any, ...]

MOST_RESTING = 2
REST_SECONDS = 300.0
# What an interpreter, the loader and the C library read when they start, and coverage, which is
# begun with the interpreter.
EARLY_VARIABLES = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ", "VIRTUAL_ENV",
                   "COVERAGE_PROCESS_")  # fmt: skip
SIGNALS = tuple(sorted(signal.valid_signals()))
LIMITS = tuple(
    sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
)


class Preload(Value):
    """What a forkserver imports before it forks.

    modules: in order. late: how many of them, at the end, the program imports later than at its
    beginning. env: the variables that all ranks have. reads: those of them that the modules read
    when they are imported (`X_*` stands for all that begin with `X_`). path: where modules are
    looked for, None for the forkserver's own `sys.path`. cwd: the ranks' directory. sets: variables
    that the late ones may set. listed: nothing is lost if what they have left for the end of the
    process is not done in each rank.
    """

    modules: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    reads: tuple[str, ...] = ()
    path: tuple[str, ...] | None = None
    cwd: str = "/"
    late: int = 0
    sets: tuple[str, ...] = ()
    listed: bool = False

    def covers(self, earlier: Preload) -> bool:
        """Whether a forkserver that has imported `earlier` needs only further imports for this.

        Its imports must be those with which this one begins: handlers at exit, warning filters and
        native libraries stand in the order of the imports.
        """
        if not earlier.modules:
            return True
        return (
            (self.path, self.cwd) == (earlier.path, earlier.cwd)
            and earlier.modules == self.modules[: len(earlier.modules)]
            and earlier.seen == {n: v for n, v in self.env.items() if among(earlier.reads, n)}
        )

    @property
    def seen(self) -> dict[str, str]:
        """The variables that the modules see when they are imported."""
        return {n: v for n, v in self.env.items() if among(self.reads, n)}

    @property
    def message(self) -> dict[str, Any]:
        """What the forkserver is told; see `forkserver.preload`."""
        in_time = len(self.modules) - self.late
        return {
            "modules": list(self.modules[:in_time]),
            "late": list(self.modules[in_time:]),
            "env": dict(self.env),
            "path": None if self.path is None else list(self.path),
            "cwd": self.cwd,
            "sets": list(self.sets),
            "listed": self.listed,
        }


class Lease(Value):
    """A forkserver at work for one group: what it is like, and what it has imported."""

    key: Key
    preload: Preload
    server: ForkServer


NOTHING = Preload()
_lock = threading.Lock()
_resting: list[Lease] = []
_working: set[ForkServer] = set()


def is_early(name: str) -> bool:
    """Tell whether a variable is read when an interpreter starts: later, it has no effect."""
    return name.startswith(EARLY_VARIABLES)


def key(env: Mapping[str, str]) -> Key:
    """Say what an interpreter that is started now with `env`, by this thread, would be like."""
    early = tuple(sorted(i for i in env.items() if is_early(i[0])))
    limits = tuple(resource.getrlimit(limit) for limit in LIMITS)
    flags = tuple(boot.interpreter_flags())
    affinity = frozenset(os.sched_getaffinity(0))
    blocked = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    ignored = tuple(n for n in SIGNALS if signal.getsignal(n) is signal.SIG_IGN)
    who = os.getuid(), os.getgid(), os.nice(0)
    return (sys.executable, flags, early, limits, affinity, blocked, ignored, who)


def prepare(env: Mapping[str, str]) -> None:
    """Have a forkserver rest here that `lease` can take, by starting one if there is none.

    It starts meanwhile. Nothing is raised: if none can be started, `lease` will say so.
    """
    wanted = key(env)
    with _lock:
        _take_early()
        if any(entry.key == wanted for entry in _resting):
            return
        try:
            server = ForkServer.start(env)
        except OSError:
            return
        surplus = _rest(Lease(wanted, NOTHING, server))
    for each in surplus:
        each.close()


def _rest(lease: Lease) -> list[ForkServer]:
    """Put one to rest; gives those that are too many now, to be closed. To be called locked."""
    _resting.append(lease)
    surplus = [e.server for e in _resting[:-MOST_RESTING]]
    del _resting[:-MOST_RESTING]
    return surplus


def _take_early() -> None:
    """Take what the command has started; nothing that `key` looks at has changed since then."""
    while boot.early:
        started = boot.early.pop()
        _resting.append(Lease(key(started.env), NOTHING, ForkServer.of(started)))


def lease(env: Mapping[str, str], preload: Preload = NOTHING) -> Lease:
    """Take a forkserver that rests here, or start one: with this environment, and these imports.

    Raises OSError.
    """
    wanted = key(env)
    taken = _take(wanted, preload)
    server = taken.server if taken is not None else ForkServer.start(env)
    if preload.modules:
        # Also to one that has them all: it says again what keeps it from forking.
        server.send(("preload", preload.message), [], [])
    with _lock:
        _working.add(server)
    return Lease(wanted, preload, server)


def _take(wanted: Key, preload: Preload) -> Lease | None:
    """Take the forkserver out of rest that lacks the fewest imports, if there is one that fits."""
    with _lock:
        fitting = [e for e in _resting if e.key == wanted and preload.covers(e.preload)]
        while fitting:
            entry = max(fitting, key=lambda e: len(e.preload.modules))
            fitting.remove(entry)
            _resting.remove(entry)
            entry.server.receive()  # notices one that has gone
            if not entry.server.lost:
                return entry
            entry.server.close()
    return None


def adopt(server: ForkServer) -> None:
    """Keep account of a forkserver that was started elsewhere."""
    with _lock:
        _working.add(server)


def release(lease: Lease) -> None:
    """Give a forkserver back, to rest if it is well."""
    if lease.server.lost or lease.server.waiting:
        discard(lease.server)
        return
    with _lock:
        _working.discard(lease.server)
        lease.server.send(("rest", REST_SECONDS), [], [])
        surplus = _rest(lease)
    for each in surplus:
        each.close()


def discard(server: ForkServer) -> None:
    """End a forkserver, which is not to be used again."""
    with _lock:
        _working.discard(server)
    server.close()


def close() -> None:
    """End the forkservers that rest here. The next launch starts a new one."""
    with _lock:
        surplus = [e.server for e in _resting]
        _resting.clear()
    for server in surplus:
        server.close()


def _forget_in_child() -> None:
    # A forked child must not keep the sockets open: a forkserver goes when its launcher is gone.
    global _lock
    _lock = threading.Lock()
    for server in [*(e.server for e in _resting), *_working]:
        server.abandon()
    _resting.clear()
    _working.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget_in_child)
