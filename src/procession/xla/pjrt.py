"""PJRT, the runtime of torch_xla since 2022: how many ranks, and each one's variables.

Pure, except for the topology of a TPU, which may have to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from procession import devices
from procession.devices.seat import Variables, read_count
from procession.devices.topology import Topology
from procession.devices.tpu import ranks_per_host
from procession.values.errors import SpecError

COUNTS = {"CUDA": "GPU_NUM_DEVICES", "NEURON": "NEURONCORE_NUM_DEVICES"}


@dataclass(frozen=True)
class Ranks:
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
    return _variables(kind, 0, 1, env, None, "") | _default(env, "PJRT_LOCAL_PROCESS_COUNT", 1)


def ranks(kind: str, env: Mapping[str, str], topology: Topology | None, endpoint: str) -> Ranks:
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
    found: list[Variables] = []
    for rank in range(count):
        variables = _variables(kind, rank, count, env, topology, endpoint)
        for name, value in (("RANK", rank), ("COUNT", count)):
            variables |= _default(env, f"PJRT_LOCAL_PROCESS_{name}", value)
        found.append(variables)
    return Ranks(found, first, count * hosts)


def _variables(
    kind: str,
    rank: int,
    count: int,
    env: Mapping[str, str],
    topology: Topology | None,
    endpoint: str,
) -> Variables:
    variables: Variables = {"PJRT_DEVICE": kind} if "PJRT_DEVICE" not in env else {}
    if kind in ("TPU", "NEURON"):
        variables |= devices.environment(
            kind.lower(),
            local_rank=rank,
            local_world_size=count,
            inherited=env,
            endpoint=endpoint,
            topology=topology,
        )
        for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):  # only for code that looks for torchrun
            variables.pop(name, None)
    elif kind == "CUDA" and count > 1:
        variables["LOCAL_WORLD_SIZE"] = str(count)  # read by torch_xla's client for CUDA
    return variables


def _default(env: Mapping[str, str], name: str, value: int) -> Variables:
    return {} if name in env else {name: str(value)}
