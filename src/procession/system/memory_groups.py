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

from procession.system.cgroups import cgroups, kills
from procession.system.files import read
from procession.system.processes import parents

_lock = threading.Lock()
_moved: dict[str, tuple[str, int]] = {}  # own cgroup -> the child we moved to, number of users


class MemoryGroups:
    """The cgroups of one run. `make` gives None where there can be none."""

    def __init__(self, own: str, limit: int, controller: str, moved: bool) -> None:
        self._own = own
        self._limit = limit
        self._controller = controller
        self._moved = moved
        self._name = f"procession_{os.getpid()}_{os.urandom(4).hex()}"
        self._made: list[str] = []

    @classmethod
    def make(cls, limit: int, root: str = "/", controller: str = "memory") -> MemoryGroups | None:
        """Get ready to make cgroups. limit: of each, in bytes."""
        found = cgroups(root)
        paths = found.paths.get("")
        if not paths or "" in found.hidden:
            return None
        own = os.path.join(root, paths[0].lstrip("/"))
        with _lock:
            moved = _share(own, controller)
        return None if moved is None else cls(moved[0], limit, controller, moved[1])

    def path(self, attempt: int, rank: int) -> str:
        """Give the directory of a rank's cgroup."""
        return os.path.join(self._own, f"{self._name}_{attempt}_{rank}")

    def add(self, attempt: int, rank: int) -> str:
        """Make a rank's cgroup; gives its directory. Raises OSError."""
        path = self.path(attempt, rank)
        os.mkdir(path, 0o755)
        self._made.append(path)
        _write(f"{path}/{self._controller}.max", str(self._limit))
        for name, value in (("swap.max", "0"), ("oom.group", "1")):
            try:
                _write(f"{path}/{self._controller}.{name}", value)
            except OSError:
                pass  # an older kernel, or one without swap
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
                _move_back(self._own, self._controller)


def obstacle(root: str = "/", controller: str = "memory") -> str:
    """Say why no rank can have a cgroup of its own here; "" if one could be made and removed."""
    paths = cgroups(root).paths.get("")
    if not paths:
        return "no cgroup of version 2"
    try:
        groups = MemoryGroups.make(1 << 40, root, controller)
        if groups is None:
            own = os.path.join(root, paths[0].lstrip("/"))
            if not os.access(own, os.W_OK) or not os.access(f"{own}/cgroup.procs", os.W_OK):
                return "own cgroup cannot be written to, or seen"
            if controller not in _words(f"{own}/cgroup.controllers"):
                return f"own cgroup has no {controller} controller"
            return "others are in the own cgroup, too"
        try:
            groups.add(0, 0)
        finally:
            groups.close()
    except OSError as e:
        return e.strerror or str(e)
    return ""


def _share(own: str, controller: str) -> tuple[str, bool] | None:
    """Give children of a cgroup the controller: which cgroup that is, and whether we moved."""
    for place, (child, users) in _moved.items():
        if own == child:  # another group of ours has moved us
            _moved[place] = child, users + 1
            return place, True
    if not os.access(f"{own}/cgroup.procs", os.W_OK) or not os.access(own, os.W_OK):
        return None
    if controller in _words(f"{own}/cgroup.subtree_control"):
        return own, False
    if controller not in _words(f"{own}/cgroup.controllers"):
        return None
    try:
        _write(f"{own}/cgroup.subtree_control", f"+{controller}")
        return own, False
    except OSError:
        pass  # it contains processes, for example this one
    if not all(_is_ours(int(pid)) for pid in _words(f"{own}/cgroup.procs")):
        return None
    child = os.path.join(own, f"procession_{os.getpid()}_launcher")
    try:
        os.mkdir(child, 0o755)
        _move_all(own, child)
        _write(f"{own}/cgroup.subtree_control", f"+{controller}")
    except OSError:
        _move_all(child, own)
        _remove(child)
        return None
    _moved[own] = child, 1
    return own, True


def _move_back(own: str, controller: str) -> None:
    child, users = _moved[own]
    if users > 1:
        _moved[own] = child, users - 1
        return
    del _moved[own]
    try:
        _write(f"{own}/cgroup.subtree_control", f"-{controller}")
    except OSError:
        pass  # somebody else uses it now
    _move_all(child, own)
    _remove(child)


def _move_all(source: str, target: str) -> None:
    for _ in range(10):  # processes there may start others meanwhile
        pids = _words(f"{source}/cgroup.procs")
        if not pids:
            return
        for pid in pids:
            try:
                _write(f"{target}/cgroup.procs", pid)
            except OSError:
                pass  # it is gone


def _is_ours(pid: int) -> bool:
    """Tell whether a process is this one, or was started below it."""
    return pid == os.getpid() or os.getpid() in (parents(pid) or ())


def _words(path: str) -> list[str]:
    return (read(path) or "").split()


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        pass  # something is still in it
