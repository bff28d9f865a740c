"""PJRT, the runtime of torch_xla since 2022: how many ranks, and each one's variables.

Pure, except for the topology of a TPU, which may have to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from procession.devices.kinds import KINDS
from procession.devices.seat import Seat, Variables, read_count
from procession.devices.topology import Topology
from procession.devices.tpu import ranks_per_host
from procession.values.errors import SpecError

RANK = "PJRT_LOCAL_PROCESS_RANK"
COUNTS = {"CUDA": "GPU_NUM_DEVICES", "NEURON": "NEURONCORE_NUM_DEVICES"}


@dataclass(frozen=True)
class HostRanks:
    """The ranks of this host.

    env: the variables of each. first: the number of the first of them among the ranks of all hosts.
    world_size: how many those are.
    """

    env: list[Variables]
    first: int
    world_size: int


def device_type(env: Mapping[str, str], found: Iterable[str]) -> str | None:
    """Give the kind of device that PJRT is to use; None if nothing says so.

    env: `PJRT_DEVICE` decides. found: the accelerators of this machine, by the names of
    `system.accelerators`; they decide if it is not set, unless PJRT_SELECT_DEFAULT_DEVICE is 0.
    """
    named = env.get("PJRT_DEVICE", "")
    if named:
        return named.partition("_")[0].upper()
    if env.get("PJRT_SELECT_DEFAULT_DEVICE") == "0":
        return None
    here = set(found)
    return "TPU" if "TPU" in here else "NEURON" if "Neuron" in here else None


def refuse_count(nprocs: int | None) -> None:
    """Raise SpecError for a number of ranks that PJRT cannot have."""
    if nprocs not in (None, 1):
        raise SpecError(
            f"Unsupported nprocs ({nprocs}). Give 1, or None for a rank on each device of this "
            "host; TPU_PROCESS_BOUNDS and NEURONCORE_NUM_DEVICES can make them fewer"
        )


def single(kind: str, env: Mapping[str, str]) -> Variables:
    """Give the variables for running in one process, on one device. Raises SpecError."""
    variables = _variables(kind, Seat(0, 1, 0, 1, env))
    variables.pop(RANK, None)
    return variables


def ranks(kind: str, env: Mapping[str, str], topology: Topology | None, endpoint: str) -> HostRanks:
    """Give the ranks of this host. Raises SpecError.

    kind: as `device_type` gives it. topology: of a TPU. endpoint: where the ranks of Neuron meet.
    """
    first, hosts, count = 0, 1, 1
    if kind == "TPU":
        assert topology is not None
        count = ranks_per_host(topology, env.get("TPU_PROCESS_BOUNDS"))
        if count > 1:
            first, hosts = topology.worker * count, len(topology.hosts)
    elif kind in COUNTS:
        count = read_count(COUNTS[kind], env.get(COUNTS[kind], "1"))
    seats = [
        Seat(rank, count, rank, count, env, endpoint=endpoint, topology=topology)
        for rank in range(count)
    ]
    return HostRanks([_variables(kind, seat) for seat in seats], first, count * hosts)


def _variables(kind: str, seat: Seat) -> Variables:
    count = str(seat.local_world_size)
    variables = seat.defaults(
        {"PJRT_DEVICE": kind, RANK: str(seat.local_rank), "PJRT_LOCAL_PROCESS_COUNT": count}
    )
    if kind in ("TPU", "NEURON"):
        variables |= KINDS[kind.lower()].environment(seat)
        for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):  # only for code that looks for torchrun
            variables.pop(name, None)
    elif kind == "CUDA" and seat.local_world_size > 1:
        variables["LOCAL_WORLD_SIZE"] = count  # read by torch_xla's client for CUDA
    return variables
