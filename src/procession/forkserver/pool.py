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
from typing import Any, NamedTuple

from procession.forkserver.client import ForkServer, interpreter_flags

MOST_RESTING = 2
REST_SECONDS = 300.0
# What an interpreter, the loader and the C library read when they start.
EARLY_VARIABLES = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "TZ", "VIRTUAL_ENV")
SIGNALS = tuple(sorted(signal.valid_signals()))
LIMITS = tuple(
    sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
)

Key = tuple[Any, ...]


class Preload(NamedTuple):
    """What a forkserver imports before it forks.

    key: tells apart those that are not the same to a rank. message: see `forkserver.preload`.
    """

    key: tuple[Any, ...]
    message: dict[str, Any]


_lock = threading.Lock()
_resting: list[tuple[Key, ForkServer]] = []
_working: set[ForkServer] = set()


def is_early(name: str) -> bool:
    """Tell whether a variable is read when an interpreter starts: later, it has no effect."""
    return name.startswith(EARLY_VARIABLES)


def key(env: Mapping[str, str]) -> Key:
    """Say what an interpreter that is started now with `env`, by this thread, would be like."""
    early = tuple(sorted(i for i in env.items() if is_early(i[0])))
    limits = tuple(resource.getrlimit(limit) for limit in LIMITS)
    flags = tuple(interpreter_flags())
    affinity = frozenset(os.sched_getaffinity(0))
    blocked = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    ignored = tuple(n for n in SIGNALS if signal.getsignal(n) is signal.SIG_IGN)
    who = os.getuid(), os.getgid(), os.nice(0)
    return (sys.executable, flags, early, limits, affinity, blocked, ignored, who)


def lease(env: Mapping[str, str], preload: Preload | None = None) -> tuple[Key, ForkServer]:
    """Take a forkserver that rests here, or start one: with this environment, and these imports.

    Raises OSError.
    """
    wanted = (*key(env), preload.key if preload else ())
    with _lock:
        for entry in reversed(_resting):
            if entry[0] == wanted:
                _resting.remove(entry)
                entry[1].receive()  # notices one that has gone
                if not entry[1].lost:
                    _working.add(entry[1])
                    return entry
                entry[1].close()
                break
    server = ForkServer.start(env)
    if preload is not None:
        server.send(("preload", preload.message), [], [])
    with _lock:
        _working.add(server)
    return wanted, server


def adopt(server: ForkServer) -> None:
    """Keep account of a forkserver that was started elsewhere."""
    with _lock:
        _working.add(server)


def release(server_key: Key | None, server: ForkServer) -> None:
    """Give a forkserver back: to rest if it has a key and is well, to go otherwise."""
    surplus = [server]
    with _lock:
        _working.discard(server)
        if server_key is not None and not server.lost and not server.waiting:
            server.send(("rest", REST_SECONDS), [], [])
            _resting.append((server_key, server))
            surplus = [s for _, s in _resting[:-MOST_RESTING]]
            del _resting[:-MOST_RESTING]
    for each in surplus:
        each.close()


def close() -> None:
    """End the forkservers that rest here. The next launch starts a new one."""
    with _lock:
        surplus = [s for _, s in _resting]
        _resting.clear()
    for server in surplus:
        server.close()


def _forget_in_child() -> None:
    # A forked child must not keep the sockets open: a forkserver goes when its launcher is gone.
    global _lock
    _lock = threading.Lock()
    for server in [*(s for _, s in _resting), *_working]:
        server.abandon()
    _resting.clear()
    _working.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forget_in_child)
