"""XRT, the runtime of torch_xla until 2023: what the environment says, and what ranks need in it.

Pure: from the environment to each rank's variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from procession.devices.seat import Variables, is_number, read_count
from procession.values.errors import SpecError
from procession.xla.rank import DEVICE, ORDINAL, WORLD_SIZE

CONFIG, WORKER = "XRT_TPU_CONFIG", "XRT_LOCAL_WORKER"
SERVICE = "XRT_MESH_SERVICE_ADDRESS"
LOCAL_ORDINAL = "XRT_SHARD_LOCAL_ORDINAL"
NUM_DEVICES = "TPU_NUM_DEVICES"
DEFAULT_DEVICES = "8"


def is_set_up(env: Mapping[str, str]) -> bool:
    """Tell whether the environment describes a TPU for XRT; an empty variable counts."""
    return CONFIG in env or WORKER in env


def device_count(env: Mapping[str, str]) -> int:
    """Give how many devices each host has. Raises SpecError."""
    return read_count(NUM_DEVICES, env.get(NUM_DEVICES) or DEFAULT_DEVICES)


def ranks_wanted(env: Mapping[str, str], nprocs: int | None) -> int:
    """Give how many ranks there will be. Raises SpecError for a count that XRT cannot have."""
    there = device_count(env)
    if nprocs is None:
        return there
    if nprocs not in (1, there):
        raise SpecError(f"The number of devices must be either 1 or {there}, got {nprocs} instead")
    return nprocs


def environments(env: Mapping[str, str], nprocs: int) -> list[Variables]:
    """Give the variables of each rank; None takes one away. Raises SpecError.

    env: the launcher's environment. nprocs: how many ranks this host runs.
    """
    worker = env[WORKER] if WORKER in env else first_worker(env.get(CONFIG, ""))
    world_size = read_count(WORLD_SIZE, env.get(WORLD_SIZE) or "1") * nprocs
    before = worker_number(env.get(WORKER, "")) * device_count(env)
    found: list[Variables] = []
    for index in range(nprocs):
        ordinal = before + index
        variables: Variables = {
            WORLD_SIZE: str(world_size),
            ORDINAL: str(ordinal),
            LOCAL_ORDINAL: str(index),
            DEVICE: f"TPU:{ordinal}",
            WORKER: worker,
        }
        if ordinal > 0:  # the mesh is made by the first rank of all
            variables[CONFIG] = None
        found.append(variables)
    return found


def worker_number(worker: str) -> int:
    """Give the number of a worker `name:number`; 0 where there is none. Raises SpecError."""
    name, colon, number = worker.partition(":")
    if not colon:
        return 0
    if not name or not is_number(number):
        raise SpecError(f"Bad worker syntax: {worker}")
    return int(number)


def first_worker(config: str) -> str:
    """Give `name:ordinal` of the first of `name;ordinal;host:port|...`. Raises SpecError."""
    workers: list[str] = []
    for entry in config.split("|"):
        parts = [p.strip() for p in entry.split(";")]
        if len(parts) != 3:
            raise SpecError(f"Bad worker syntax: {entry}")
        name, ordinal, address = parts
        host, _, port = address.rpartition(":")
        if not (name and host and is_number(ordinal) and is_number(port)):
            raise SpecError(f"Bad worker syntax: {entry}")
        workers.append(f"{name}:{int(ordinal)}")
    return workers[0]
