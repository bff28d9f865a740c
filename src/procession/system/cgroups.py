"""The cgroups of this process, of both versions, and what they give it of the machine.

Read from /proc and /sys. What cannot be read is None, or is left out.
"""

from __future__ import annotations

import errno
import os

from procession.system.files import read
from procession.values.base import Value

UNLIMITED = 1 << 60  # version 1 says "no limit" with a number near 2**63


class Cgroups(Value):
    """The cgroups of this process.

    version: "1", "2", "1 and 2", or None if unknown. paths: by controller for version 1, and by ""
    for version 2: directories, from that of this process up to the highest visible one. hidden:
    controllers whose directory of this process is not visible; the mount point stands for it.
    """

    version: str | None
    paths: dict[str, tuple[str, ...]]
    root: str = "/"
    hidden: frozenset[str] = frozenset()

    def _each(self, controller: str, name: str) -> list[str]:
        paths = (*self.paths.get("", ()), *self.paths.get(controller, ()))
        texts = [read(f"{path}/{name}", self.root) for path in paths]
        return [text for text in texts if text]

    def limit(self, controller: str, *names: str) -> int | None:
        """Give the lowest limit in files of these names; None: there is none."""
        found = [int(t) for n in names for t in self._each(controller, n) if t.isdecimal()]
        return min((limit for limit in found if limit < UNLIMITED), default=None)

    def cores(self) -> float | None:
        """Give the lowest CPU quota, in cores; None: there is none."""
        quotas = [t.split() for t in self._each("cpu", "cpu.max")]
        quotas += [
            [q, p]
            for path in self.paths.get("cpu", ())
            if (q := read(f"{path}/cpu.cfs_quota_us", self.root))
            and (p := read(f"{path}/cpu.cfs_period_us", self.root))
        ]
        pairs = [pair for pair in quotas if len(pair) == 2 and all(w.isdecimal() for w in pair)]
        return min((int(q) / int(p) for q, p in pairs if int(q) and int(p)), default=None)

    def memory(self) -> int | None:
        """Give the lowest limit of memory, in bytes; None: there is none."""
        return self.limit("memory", "memory.max", "memory.limit_in_bytes")


def cgroups(root: str = "/") -> Cgroups:
    """Find the cgroups of this process."""
    mounts: dict[
        str, tuple[str, str]
    ] = {}  # controller -> the part of its tree that is mounted, and where
    for line in (read("/proc/self/mountinfo", root) or "").splitlines():
        left, _, right = line.partition(" - ")
        mount, kind = left.split(), right.split()
        if len(mount) < 5 or len(kind) < 3 or not kind[0].startswith("cgroup"):
            continue
        for controller in [""] if kind[0] == "cgroup2" else kind[2].split(","):
            mounts.setdefault(controller, (mount[3].rstrip("/"), mount[4]))
    paths: dict[str, tuple[str, ...]] = {}
    hidden: set[str] = set()
    for line in (read("/proc/self/cgroup", root) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            if controller not in mounts:
                continue
            top, mounted = mounts[controller]
            below = _below(path.rstrip("/"), top)
            if below is None:
                hidden.add(controller)
            paths[controller] = _upwards(mounted, below or "")
    real = {"2" if c == "" else "1" for c in paths if not c.startswith("name=")}
    return Cgroups(" and ".join(sorted(real)) or None, paths, root, frozenset(hidden))


def own_place(root: str = "/") -> str:
    """Give the directory of this process's cgroup of version 2, for `killgroup`. Raises OSError."""
    found = cgroups(root)
    paths = found.paths.get("")
    if not paths:
        what = "there is no cgroup of version 2"
        if found.version == "1":
            what += ", and version 1 cannot kill at once"
        raise OSError(errno.ENOTSUP, what)
    if "" in found.hidden:
        raise OSError(errno.ENOTSUP, "the cgroup of this process is not visible")
    return os.path.join(root, paths[0].lstrip("/"))


def highest_place() -> str:
    """Give the highest directory of version 2 that is visible, "" if there is none."""
    paths = cgroups().paths.get("")
    return paths[-1] if paths else ""


def _below(path: str, top: str) -> str | None:
    """Give the part of a cgroup's path that is below what is mounted; None: it is elsewhere."""
    if path != top and not path.startswith(f"{top}/"):
        return None
    below = path[len(top) :]
    return None if ".." in below.split("/") else below  # a container sees only part of the tree


def _upwards(mounted: str, below: str) -> tuple[str, ...]:
    found = [mounted]
    for word in below.split("/")[1:]:
        found.insert(0, f"{found[0]}/{word}")
    return tuple(found)
