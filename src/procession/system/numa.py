"""The machine's NUMA nodes, and how its CPUs lie in it, read from /sys, without `numactl`.

Nothing here raises. What cannot be read is None, or is left out. For CPUs the simplest machine is
assumed then: each CPU is a core, there is one socket, one node, and one cache for each node.
"""

from __future__ import annotations

from collections.abc import Iterable

from procession.system.files import entries, read
from procession.values.cpusets import Cpu, parse_cpus

NODES = "sys/devices/system/node"
CPU = "sys/devices/system/cpu/cpu"


def nodes(root: str = "/") -> dict[int, tuple[int, ...]]:
    """Give the cores of each NUMA node that is online, in order; {}: unknown."""
    found = [int(name[4:]) for name in entries(NODES, r"node\d+", root)]
    return {n: parse_cpus(read(f"{NODES}/node{n}/cpulist", root) or "") for n in found}


def read_cpus(allowed: Iterable[int], root: str = "/") -> list[Cpu]:
    """Describe these CPUs."""
    of = {cpu: node for node, cpus in nodes(root).items() for cpu in cpus}
    found: list[Cpu] = []
    for cpu in sorted(allowed):
        node = of.get(cpu, 0)
        siblings = parse_cpus(read(f"{CPU}{cpu}/topology/thread_siblings_list", root) or "")
        cache = _last_cache(cpu, root) or [c for c in of if of[c] == node] or (0,)
        socket = int(read(f"{CPU}{cpu}/topology/physical_package_id", root) or 0)
        found.append(Cpu(cpu, min(siblings or (cpu,)), min(cache), node, socket))
    return found


def node_of(device: str, root: str = "/") -> int | None:
    """Give the NUMA node of a PCI device. On a machine with one node the kernel often says -1.

    device: its directory in /sys. None: unknown.
    """
    text = read(f"{device}/numa_node", root) or ""
    if text.isdecimal():
        return int(text)
    there = nodes(root)
    return next(iter(there)) if len(there) == 1 else None


def _last_cache(cpu: int, root: str) -> tuple[int, ...]:
    """Give the CPUs that share this one's cache of the highest level."""
    place = f"{CPU}{cpu}/cache"
    caches = entries(place, r"index\d+", root)  # by level
    return parse_cpus(read(f"{place}/{caches[-1]}/shared_cpu_list", root) or "") if caches else ()
