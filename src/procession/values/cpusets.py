"""Sets of CPUs: which each rank gets, and how they are written. Pure.

The modes of `bind` are torchrun's. But torchrun divides a node among its GPUs; here it is divided
among its ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from procession.values.base import Value
from procession.values.figures import parse_ranks


class Cpu(Value):
    """A CPU that the launcher may use, and what it shares with others.

    number: the kernel's. core: the lowest number of a CPU on its physical core. cache: the lowest
    number of a CPU that shares its last-level cache. node: its NUMA node. socket: its processor.
    """

    number: int
    core: int
    cache: int
    node: int
    socket: int


Sets = list[tuple[int, ...]]


def in_order(cpus: Sequence[Cpu]) -> list[Cpu]:
    """Sort CPUs so that neighbours in the hardware come together."""
    return sorted(cpus, key=lambda c: (c.socket, c.node, c.cache, c.core, c.number))


def deal(cpus: Sequence[Cpu], nproc: int, count: int) -> Sets:
    """Give each rank `count` CPUs of its own that lie together.

    If there are enough cores, each CPU of a rank is on another core. Two ranks share a core only if
    that cannot be avoided. Raises ValueError if there are too few CPUs.
    """
    if nproc * count > len(cpus):
        raise ValueError(
            f"cpus_per_rank: {nproc} ranks with {count} CPUs each need {count * nproc}, "
            f"but this process may use {len(cpus)}"
        )
    ordered = in_order(cpus)
    cores = _cores(ordered)
    each = min(count, len(cores) // nproc)
    blocks = [cores[rank * each : (rank + 1) * each] for rank in range(nproc)]
    if not each or any(sum(map(len, block)) < count for block in blocks):
        flat = [cpu.number for cpu in ordered]
        return [tuple(sorted(flat[rank * count : (rank + 1) * count])) for rank in range(nproc)]
    sets: Sets = []
    for block in blocks:
        first_of_each = [core[k] for k in range(max(map(len, block))) for core in block if core[k:]]
        sets.append(tuple(sorted(first_of_each[:count])))
    return sets


def bind(cpus: Sequence[Cpu], mode: str, nodes: Sequence[int]) -> Sets:
    """Give each rank the CPUs that a mode of torchrun's --numa-binding has for it.

    nodes: the NUMA node of each rank. Raises ValueError if a rank gets none.
    """
    ordered = in_order(cpus)
    sets: Sets = []
    for rank, node in enumerate(nodes):
        own = [cpu for cpu in ordered if cpu.node == node]
        if not own:
            raise ValueError(f"rank {rank} belongs on NUMA node {node}, whose CPUs it may not use")
        ranks = [r for r, other in enumerate(nodes) if other == node]
        sets.append(tuple(sorted(_cpus_of(mode, ordered, own, ranks.index(rank), len(ranks)))))
    return sets


def in_turn(cpus: Sequence[Cpu], nproc: int) -> list[int]:
    """Deal ranks over the NUMA nodes that have a CPU for them."""
    nodes = sorted({cpu.node for cpu in cpus})
    return [nodes[rank % len(nodes)] for rank in range(nproc)]


def shares(sets: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Say how many threads each rank can have: its CPUs, divided by the ranks that share them."""
    return tuple(max(1, len(own) // sets.count(own)) for own in sets)


def _cpus_of(mode: str, cpus: list[Cpu], own: list[Cpu], place: int, ranks: int) -> Sequence[int]:
    """Give the CPUs of a rank. own: those of its NUMA node. place: among this node's ranks."""
    if mode == "node":
        return [cpu.number for cpu in own]
    if mode == "socket":
        return [cpu.number for cpu in cpus if cpu.socket == own[0].socket]
    if mode == "core-complex":
        there = dict.fromkeys(c.cache for c in own)
        caches = [[c.number for c in own if c.cache == k] for k in there]
        caches.sort(key=lambda numbers: (-len(numbers), min(numbers)))
        return caches[place % len(caches)]
    cores = sorted(_cores(own), key=min)
    each, more = divmod(len(cores), ranks)
    if not each:
        raise ValueError(
            f"NUMA node {own[0].node} has {len(cores)} cores for {ranks} ranks, "
            "too few for an exclusive one each"
        )
    start = place * each + min(place, more)
    return [n for core in cores[start : start + each + (place < more)] for n in core]


def _cores(ordered: Sequence[Cpu]) -> list[list[int]]:
    """Give the CPUs of each core, in order."""
    cores: dict[int, list[int]] = {}
    for cpu in ordered:
        cores.setdefault(cpu.core, []).append(cpu.number)
    return list(cores.values())


def parse_cpus(text: str) -> tuple[int, ...]:
    """Read a list like `0-3,8`; what is not one gives ()."""
    try:
        return tuple(sorted(parse_ranks(text)))
    except ValueError:
        return ()
