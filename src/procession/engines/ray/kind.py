"""`--engine ray`: nodes of a Ray cluster."""

from __future__ import annotations

from procession.engines.contract import Chosen, Request
from procession.engines.ray.engine import RayEngine
from procession.values.errors import SpecError

OF_GPUS = ("cuda", "rocm")  # kinds of devices that Ray counts as GPUs


def choose(request: Request) -> Chosen:
    """Make the engine for a request; nothing is started yet. Raises SpecError, EngineError."""
    share, nodes = request.share, request.nodes
    spec = share.spec
    if nodes is None:
        raise SpecError("how many nodes of the Ray cluster? Say --nnodes COUNT, or nnodes=COUNT")
    gpus = spec.nproc * (share.gpus or int(share.devices in OF_GPUS)) or None
    cpus = spec.nproc * (spec.placement.cpus_per_rank or 1)
    return Chosen(RayEngine(nodes, cpus=cpus, gpus=gpus, spares=request.spares), share, nodes)
