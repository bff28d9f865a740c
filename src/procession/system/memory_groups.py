"""A cgroup of version 2 for each rank, with a limit of memory.

Theory of operation. Each rank gets a cgroup below that of this process. A cgroup that gives its
children a controller must not contain processes itself (except for the machine's root). So if ours
does not give `memory` to children yet, its processes first move into a child cgroup. That is done
only if all of them are this process and its descendants, and it is undone when the last group is
over. If it cannot be done, there are no cgroups, and the limit is set by RLIMIT_DATA.

A rank enters its cgroup itself, before its program starts, so that everything that it starts is in
it, too. `memory.oom.group` lets the kernel kill the whole cgroup at once.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from procession.system.cgroups import cgroups, kills
from procession.system.files import read
from procession.system.processes import parents

CONTROLLER = "memory"
_lock = threading.Lock()
_moved: dict[str, tuple[str, int]] = {}  # own cgroup -> the child we moved to, number of users


class MemoryGroups:
    """The cgroups of one run. `make` gives None where there can be none."""

    def __init__(self, own: str, limit: int, moved: bool) -> None:
        self._own = own
        self._limit = limit
        self._moved = moved
        self._name = f"procession_{os.getpid()}_{os.urandom(4).hex()}"
        self._made: list[str] = []

    @classmethod
    def make(cls, limit: int, root: str = "/") -> MemoryGroups | None:
        """Get ready to make cgroups. limit: of each, in bytes."""
        own = _own(root)
        with _lock:
            found = _share(own) if own else None
        return None if found is None else cls(found[0], limit, found[1])

    def path(self, attempt: int, rank: int) -> str:
        """Give the directory of a rank's cgroup."""
        return os.path.join(self._own, f"{self._name}_{attempt}_{rank}")

    def add(self, attempt: int, rank: int) -> str:
        """Make a rank's cgroup; gives its directory. Raises OSError."""
        path = self.path(attempt, rank)
        os.mkdir(path, 0o755)
        self._made.append(path)
        _write(f"{path}/memory.max", str(self._limit))
        for name, value in (("swap.max", "0"), ("oom.group", "1")):
            with suppress(OSError):  # an older kernel, or one without swap
                _write(f"{path}/memory.{name}", value)
        return path

    def killed(self, attempt: int, rank: int) -> bool:
        """Tell whether the kernel killed something in a rank's cgroup because memory ran out."""
        return bool(kills(f"{self.path(attempt, rank)}/memory.events"))

    def close(self) -> None:
        """Remove the cgroups. One that still has processes stays."""
        for path in self._made:
            _remove(path)
        self._made.clear()
        if self._moved:
            self._moved = False
            with _lock:
                _move_back(self._own)


def _own(root: str) -> str:
    """Give the directory of this process's cgroup; "" if it cannot be seen."""
    found = cgroups(root)
    return os.path.join(root, found.paths[0].lstrip("/")) if found.own else ""


def _share(own: str) -> tuple[str, bool] | None:
    """Give children of a cgroup the controller: which cgroup that is, and whether we moved."""
    for place, (child, users) in _moved.items():
        if own == child:  # another group of ours has moved us
            _moved[place] = child, users + 1
            return place, True
    if not os.access(own, os.W_OK) or not os.access(f"{own}/cgroup.procs", os.W_OK):
        return None
    if CONTROLLER in _words(f"{own}/cgroup.subtree_control"):
        return own, False
    pids = map(int, _words(f"{own}/cgroup.procs"))
    if CONTROLLER not in _words(f"{own}/cgroup.controllers") or not all(map(_is_ours, pids)):
        return None
    child = os.path.join(own, f"procession_{os.getpid()}_launcher")
    try:
        os.mkdir(child, 0o755)
        _move_all(own, child)
        _write(f"{own}/cgroup.subtree_control", f"+{CONTROLLER}")
    except OSError:
        _move_all(child, own)
        _remove(child)
        return None
    _moved[own] = child, 1
    return own, True


def _move_back(own: str) -> None:
    child, users = _moved.pop(own)
    if users > 1:
        _moved[own] = child, users - 1
        return
    with suppress(OSError):  # somebody else uses it now
        _write(f"{own}/cgroup.subtree_control", f"-{CONTROLLER}")
    _move_all(child, own)
    _remove(child)


def _move_all(source: str, target: str) -> None:
    for _ in range(10):  # processes there may start others meanwhile
        pids = _words(f"{source}/cgroup.procs")
        if not pids:
            return
        for pid in pids:
            with suppress(OSError):  # it is gone
                _write(f"{target}/cgroup.procs", pid)


def _is_ours(pid: int) -> bool:
    """Tell whether a process is this one, or was started below it."""
    return pid == os.getpid() or os.getpid() in (parents(pid) or ())


def _words(path: str) -> list[str]:
    return (read(path) or "").split()


def _write(path: str, text: str) -> None:
    with open(path, "w") as f:
        f.write(text)


def _remove(path: str) -> None:
    with suppress(OSError):  # something is still in it
        os.rmdir(path)
