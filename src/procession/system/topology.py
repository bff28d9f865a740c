"""How the CPUs that a process may use lie in its machine, read from /sys.

Nothing here raises. What cannot be read counts as the simplest machine: each CPU a core of its own,
one socket, one cache for each NUMA node, one node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from procession.cpusets import Cpu
from procession.system.files import number, read
from procession.system.numa import nodes, parse_cpus

CPU = "sys/devices/system/cpu/cpu"
OF_DATA = ("Unified", "Data")


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
