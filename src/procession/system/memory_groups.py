"""A cgroup of version 2 for each rank, with a limit of memory.

Theory of operation. Ranks get cgroups beside each other, below our own. A cgroup that gives its
children a controller may hold no process itself (but for the machine's root): so where ours does
not give `memory` to children yet, what is in it moves into a child of its own first. That is done
only if all of it is ours, this process and what it has started; when the last group is over, it is
undone. Where that cannot be done, there are no cgroups, and who wants a limit takes another way.

A rank goes into its cgroup by itself, before its program starts, so that nothing that it starts can
be outside. `memory.oom.group` lets the kernel end all of it at once.
"""

from __future__ import annotations

import os
import threading

from procession.system.cgroups import cgroups
from procession.system.files import read

_lock = threading.Lock()
_moved: dict[str, tuple[str, int]] = {}  # own cgroup -> the child that we are in, and for how many


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
        """Tell whether the kernel has killed something in a rank's cgroup for want of memory."""
        for line in (read(f"{self.path(attempt, rank)}/memory.events") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return value.strip() not in ("", "0")
        return False

    def close(self) -> None:
        """Remove the cgroups, whose processes are gone; what still holds one keeps it."""
        for path in self._made:
            _remove(path)
        self._made.clear()
        if self._moved:
            self._moved = False
            with _lock:
                _move_back(self._own, self._controller)


def _share(own: str, controller: str) -> tuple[str, bool] | None:
    """See that children of a cgroup have the controller: which cgroup, and whether we moved."""
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
        pass  # there are processes in it: we are
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
        pass  # somebody else has use for it now
    _move_all(child, own)
    _remove(child)


def _move_all(source: str, target: str) -> None:
    for _ in range(10):  # what is there may start something meanwhile
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
    while pid > 1:
        if pid == os.getpid():
            return True
        stat = (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        pid = int(stat[1]) if len(stat) > 1 else 0
    return pid == os.getpid()


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
