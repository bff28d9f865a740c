"""From a group's `Placement` to what each of its ranks gets on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from procession.values.base import Value
from procession.values.errors import SpecError
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.system.memory_groups import MemoryGroups

VARIABLES = {
    "NVIDIA": ("CUDA_VISIBLE_DEVICES",),
    "AMD": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "Intel": ("ZE_AFFINITY_MASK",),
}
THREADS = "OMP_NUM_THREADS"


class Placed(Value):
    """What ranks get. cpus: by rank; () for all those of the launcher.

    threads: how many threads a rank can use, by rank; () if it is not known. cores: that
    the launcher may use. notes: what people should know.
    """

    cpus: tuple[tuple[int, ...], ...] = ()
    threads: tuple[int, ...] = ()
    cores: int = 1
    notes: tuple[str, ...] = ()

    def variables(self, rank: int, inherited: Mapping[str, str]) -> dict[str, str]:
        """Give the variables that a rank has because of its place.

        Without one, the number of threads is the same for all, see `values.environment`.
        """
        if not self.cpus or THREADS in inherited:
            return {}
        return {THREADS: str(self.threads[rank])}


def place(spec: Spec, env: Mapping[str, str], root: str = "/") -> Placed:
    """Find the CPUs of each rank. Raises SpecError.

    env: the launcher's variables. root: where /proc and /sys are.
    """
    wanted, nproc = spec.placement, spec.nproc
    allowed = os.sched_getaffinity(0)
    if not wanted.chooses_cpus:
        threads = (max(1, len(allowed) // nproc),) * nproc if nproc > 1 else ()
        return Placed((), threads, len(allowed))
    from procession.system.numa import read_cpus
    from procession.values import cpusets

    cpus = read_cpus(allowed, root)
    notes: tuple[str, ...] = ()
    try:
        if wanted.cpus_per_rank is not None:
            sets = cpusets.deal(cpus, nproc, wanted.cpus_per_rank)
        else:
            assert wanted.numa is not None
            nodes = _nodes_of_gpus(spec, env, root)
            if nodes is None:
                nodes = cpusets.in_turn(cpus, nproc)
                there = len({cpu.node for cpu in cpus})
                notes = (
                    f"numa {wanted.numa}: the ranks' GPUs are not known; ranks are dealt in turn "
                    f"over {there} NUMA {'node' if there == 1 else 'nodes'} [P405]",
                )
            sets = cpusets.bind(cpus, wanted.numa, nodes)
    except ValueError as e:
        raise SpecError(str(e)) from None
    return Placed(tuple(sets), cpusets.shares(sets), len(allowed), notes)


class Places:
    """The places of one group's ranks, and what has to be made for them.

    placed: their CPUs. groups: their cgroups, if their memory is limited by such; and notes: what
    people should know; complete after `prepare`. Raises SpecError.
    """

    def __init__(self, spec: Spec, env: Mapping[str, str]) -> None:
        self.placed = place(spec, env)
        self.notes = list(self.placed.notes)
        self._spec = spec
        self._limit = spec.placement.memory_bytes
        self.groups: MemoryGroups | None = None

    def prepare(self) -> None:
        """Choose how memory is limited, if it is."""
        if self._limit is None:
            return
        from procession.system.memory_groups import MemoryGroups

        self.groups = MemoryGroups.make(self._limit)
        how = "for each process by RLIMIT_DATA; no cgroup can be made here"
        if self.groups is not None:
            how = "for each rank by a cgroup of its own"
        self.notes.append(f"memory limit: {self._spec.placement.memory_limit} {how} [P404]")

    def of(self, attempt: int, rank: int) -> dict[str, Any]:
        """Say what is a rank's own, for `worker.setup.take_place`. Raises OSError.

        That is the placement itself, and what follows from it for this rank.
        """
        found: dict[str, Any] = self._spec.placement.given
        found.pop("numa", None)  # it may be a member of torch's enumeration, which is no plain text
        if self.placed.cpus:
            found["cpus"] = self.placed.cpus[rank]
        if self.groups is not None:
            found["cgroup"] = self.groups.add(attempt, rank)
        elif self._limit is not None:
            found["data"] = self._limit
        return found

    def cgroups(self, attempt: int) -> list[str]:
        """Name the directories that `of` makes in an attempt."""
        if self.groups is None:
            return []
        return [self.groups.path(attempt, rank) for rank in range(self._spec.nproc)]

    def close(self) -> None:
        """Remove what was made."""
        if self.groups is not None:
            self.groups.close()


def _nodes_of_gpus(spec: Spec, env: Mapping[str, str], root: str) -> list[int] | None:
    """Give the NUMA node of each rank's GPU; None if one is not known."""
    from procession.system.accelerators import find
    from procession.system.numa import node_of

    found = next((a for a in find(root) if a.kind in VARIABLES and a.devices), None)
    if found is None:
        return None
    there = found.devices
    nodes: list[int] = []
    for rank in range(spec.nproc):
        own: dict[str, str | None] = {**env, **spec.env[rank]}
        word = _device(rank, [own.get(name) for name in VARIABLES[found.kind]])
        if word.isdecimal() and int(word) < len(there):
            fit = [there[int(word)]]
        else:
            fit = [gpu for gpu in there if word and gpu.uuid.startswith(word)]
        node = node_of(fit[0].place, root) if len(fit) == 1 else None
        if node is None:
            return None
        nodes.append(node)
    return nodes


def _device(rank: int, lists: list[str | None]) -> str:
    """Name the device that a rank takes of those it sees: its own one, or that of its number."""
    text = next((text for text in lists if text is not None), None)
    if text is None:
        return str(rank)
    words = [word.strip() for word in text.split(",")]
    place = rank if len(words) > 1 else 0
    return words[place].partition(".")[0] if place < len(words) else ""
