"""The machine's NUMA nodes, read from /sys, without `numactl`, and lists of cores.

Nothing here raises: what cannot be read is None, or is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from procession.system.files import field, read

NODES = "sys/devices/system/node"


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
