"""TPU: one chip per rank, by the variables of PJRT."""

from __future__ import annotations

import math

from procession.devices.seat import Seat, Variables
from procession.devices.topology import Topology, read_shape, topology_from_variables
from procession.values.errors import SpecError

FIRST_PORT = 8476  # of the TPU runtime, on each host; the ranks of a host take as many in a row
CORES_OF_ITS_OWN = 7  # the generation from which a chip's two cores count in the process bounds


def tpu(seat: Seat) -> Variables:
    """Give the variables of PJRT that are not inherited. A single rank gets one chip."""
    local, count = seat.local_rank, seat.local_world_size
    common = {
        "PJRT_DEVICE": "TPU",
        "PJRT_LOCAL_PROCESS_COUNT": str(count),
        "TPU_VISIBLE_CHIPS": str(local),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
    }
    if count == 1:
        return seat.defaults({**common, "TPU_PROCESS_BOUNDS": "1,1,1"})
    topology = seat.topology or topology_from_variables(seat.inherited)
    there = ranks_per_host(topology, seat.inherited.get("TPU_PROCESS_BOUNDS"))
    if count != there:
        raise SpecError(
            f"a host of a TPU {topology.accelerator} runs 1 rank or {there}, one per chip, "
            f"not {count}"
        )
    ports = range(FIRST_PORT, FIRST_PORT + count)
    bounds = [*topology.chips, *([2] if topology.generation >= CORES_OF_ITS_OWN else [])]
    return seat.defaults(
        {
            **common,
            "PJRT_LOCAL_PROCESS_RANK": str(local),
            "TPU_PROCESS_BOUNDS": ",".join(map(str, bounds)),
            "CLOUD_TPU_TASK_ID": str(topology.worker * count + local),
            "TPU_PROCESS_PORT": str(ports[local]),
            "TPU_PROCESS_ADDRESSES": ",".join(f"{h}:{p}" for h in topology.hosts for p in ports),
        }
    )


def ranks_per_host(topology: Topology, process_bounds: str | None) -> int:
    """Give how many ranks a host runs: one per chip, or fewer if the inherited bounds say so."""
    chips = topology.chips_per_host
    if not process_bounds:
        return chips
    return min(chips, math.prod(read_shape("TPU_PROCESS_BOUNDS", process_bounds)))
