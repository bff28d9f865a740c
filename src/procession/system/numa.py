"""Cores and memory: the machine's NUMA nodes, and what cgroups give this process of both.

Read from /sys and /proc, without `numactl`. Nothing here raises: what cannot be read is None, or is
left out. Everything takes a root directory, so that it can be shown another machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from procession.system.probe import field, read

NODES = "sys/devices/system/node"
UNLIMITED = 1 << 60  # cgroup v1 says "no limit" with a number near 2**63


@dataclass(frozen=True)
class Node:
    """A NUMA node: its cores, and its memory in bytes (None: unknown)."""

    number: int
    cpus: tuple[int, ...]
    memory: int | None


def nodes(root: str = "/") -> list[Node] | None:
    """Give the NUMA nodes that are online, in order; None: unknown."""
    try:
        names = os.listdir(os.path.join(root, NODES))
    except OSError:
        return None
    online = read(f"{NODES}/online", root)
    found = sorted(int(n[4:]) for n in names if n.startswith("node") and n[4:].isdecimal())
    if online is not None:
        found = [n for n in found if n in parse_cpus(online)]
    return [
        Node(
            n,
            parse_cpus(read(f"{NODES}/node{n}/cpulist", root) or ""),
            field(f"{NODES}/node{n}/meminfo", f"Node {n} MemTotal", root),
        )
        for n in found
    ] or None


def parse_cpus(text: str) -> tuple[int, ...]:
    """Read a list like `0-3,8`; what is not one gives ()."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.strip().partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return ()
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def format_cpus(cpus: Iterable[int]) -> str:
    """Write numbers as a list like `0-3,8`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and spans[-1][1] == cpu - 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


# -- cgroups


@dataclass(frozen=True)
class Cgroups:
    """The cgroups of this process.

    version: "1", "2", "1 and 2", or None if unknown. paths: by controller of version 1, and by ""
    for version 2, its directories from the own one up to the highest that can be seen.
    """

    version: str | None
    paths: dict[str, tuple[str, ...]]
    root: str = "/"

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

    def writable(self) -> bool:
        """Tell whether this process may make cgroups of version 2 below its own."""
        own = os.path.join(self.root, self.paths.get("", ("",))[0].lstrip("/"))
        return "" in self.paths and all(
            os.access(path, os.W_OK) for path in (own, f"{own}/cgroup.procs")
        )


def cgroups(root: str = "/") -> Cgroups:
    """Find the cgroups of this process."""
    mounts: dict[str, tuple[str, str]] = {}  # controller -> what of its tree is mounted, and where
    for line in (read("/proc/self/mountinfo", root) or "").splitlines():
        left, _, right = line.partition(" - ")
        mount, kind = left.split(), right.split()
        if len(mount) < 5 or len(kind) < 3 or not kind[0].startswith("cgroup"):
            continue
        for controller in [""] if kind[0] == "cgroup2" else kind[2].split(","):
            mounts.setdefault(controller, (mount[3].rstrip("/"), mount[4]))
    paths: dict[str, tuple[str, ...]] = {}
    for line in (read("/proc/self/cgroup", root) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            if controller in mounts:
                paths[controller] = _upwards(path, *mounts[controller])
    real = {"2" if c == "" else "1" for c in paths if not c.startswith("name=")}
    return Cgroups(" and ".join(sorted(real)) or None, paths, root)


def _upwards(path: str, top: str, mounted: str) -> tuple[str, ...]:
    path, below = path.rstrip("/"), ""
    if path == top or path.startswith(f"{top}/"):
        below = path[len(top) :]
    if ".." in below.split("/"):  # outside of what this container sees
        below = ""
    found = [mounted]
    for word in below.split("/")[1:]:
        found.insert(0, f"{found[0]}/{word}")
    return tuple(found)
