"""The machine's NUMA nodes, and how its CPUs lie in it, read from /sys, without `numactl`.

Nothing here raises. What cannot be read is None, or is left out. For CPUs the simplest machine is
assumed then: each CPU is a core, there is one socket, one node, and one cache for each node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from procession.system.files import field, number, read
from procession.values.base import Value
from procession.values.cpusets import Cpu, parse_cpus

NODES = "sys/devices/system/node"
CPU = "sys/devices/system/cpu/cpu"
OF_DATA = ("Unified", "Data")


class Node(Value):
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


def read_cpus(allowed: Iterable[int], root: str = "/") -> list[Cpu]:
    """Describe these CPUs."""
    of = {cpu: node.number for node in nodes(root) or () for cpu in node.cpus}
    found: list[Cpu] = []
    for cpu in sorted(allowed):
        node = of.get(cpu, 0)
        siblings = parse_cpus(read(f"{CPU}{cpu}/topology/thread_siblings_list", root) or "")
        cache = _last_cache(cpu, root) or [c for c in of if of[c] == node] or (0,)
        socket = number(f"{CPU}{cpu}/topology/physical_package_id", root) or 0
        found.append(Cpu(cpu, min(siblings or (cpu,)), min(cache), node, socket))
    return found


def node_of(device: str, root: str = "/") -> int | None:
    """Give the NUMA node of a PCI device. On a machine with one node the kernel often says -1.

    device: its directory in /sys. None: unknown.
    """
    text = read(f"{device}/numa_node", root) or ""
    if text.isdecimal():
        return int(text)
    there = nodes(root) or []
    near = set(parse_cpus(read(f"{device}/local_cpulist", root) or ""))
    fit = [n.number for n in there if near & set(n.cpus)]
    if len(fit) == 1:
        return fit[0]
    return there[0].number if len(there) == 1 else None


def _last_cache(cpu: int, root: str) -> tuple[int, ...]:
    """Give the CPUs that share this one's cache of the highest level."""
    place = f"{CPU}{cpu}/cache"
    try:
        names = [n for n in os.listdir(os.path.join(root, place)) if n.startswith("index")]
    except OSError:
        return ()
    levels = [
        (number(f"{place}/{name}/level", root) or 0, name)
        for name in names
        if read(f"{place}/{name}/type", root) in OF_DATA
    ]
    if not levels:
        return ()
    return parse_cpus(read(f"{place}/{max(levels)[1]}/shared_cpu_list", root) or "")
