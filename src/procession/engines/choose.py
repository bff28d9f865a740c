"""Engines by name, and what each makes of what a node is to run."""

from __future__ import annotations

import os

from procession.engines.contract import EngineError
from procession.engines.work import Share
from procession.errors import SpecError
from procession.placement import NO_PLACEMENT, Placement
from procession.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.contract import Engine

NAMES = ("slurm", "ray")


def choose(
    name: str, share: Share, nodes: int | None, spares: int = 0
) -> tuple[Engine, Share, int]:
    """Give the engine of this name, what each node runs under it, and how many nodes.

    nodes: how many are asked for; None: as many as the engine has. spares: how many more are held
    ready; Slurm's are what an allocation has beyond `nodes`. Raises SpecError, and
    EngineError for an engine that is not there.
    """
    if nodes is not None and (type(nodes) is not int or nodes < 1):
        raise SpecError(f"nnodes must be a count of 1 or more, not {nodes!r}")
    if name == "slurm":
        if spares:
            raise SpecError(
                "spare nodes of Slurm are those that an allocation has beyond --nnodes: ask for "
                "more of them"
            )
        return _slurm(share, nodes)
    if name == "ray":
        return _ray(share, nodes, spares)
    raise SpecError(f"there is no engine {name!r}; there are {' and '.join(NAMES)}")


def _slurm(share: Share, nodes: int | None) -> tuple[Engine, Share, int]:
    from procession.engines.slurm import Slurm
    from procession.engines.slurm_allocation import read_task
    from procession.engines.slurm_step import SlurmStep

    spec = share.spec
    task = read_task(os.environ)
    if task is not None and task.count > 1:
        step = SlurmStep(task)
        if nodes is not None and nodes > step.slots:
            raise SpecError(f"{nodes} nodes are asked for, but srun has started {step.slots} tasks")
        return step, share, nodes or step.slots
    engine = Slurm(grace=spec.stop.grace + spec.stop.notice)
    found = engine.allocation
    there = len(found.nodes)
    if nodes is not None and nodes > there:
        raise SpecError(
            f"{nodes} nodes are asked for, but the allocation (job {found.job}) has {there}"
        )
    if found.cpus_per_task and spec.placement is NO_PLACEMENT:
        share = share.__replace__(
            spec=spec.__replace__(placement=Placement(cpus_per_rank=found.cpus_per_task))
        )
    if found.gpus_per_task and not share.devices:
        share = share.__replace__(gpus=found.gpus_per_task)
    return engine, share, nodes or there


def _ray(share: Share, nodes: int | None, spares: int) -> tuple[Engine, Share, int]:
    from procession.engines.ray import RayEngine

    spec = share.spec
    if nodes is None:
        raise SpecError("how many nodes of the Ray cluster? Say --nnodes COUNT, or nnodes=COUNT")
    gpus = spec.nproc * share.gpus if share.gpus else spec.nproc if _wants_gpus(share) else None
    engine = RayEngine(nodes, cpus=_cpus(spec), gpus=gpus, spares=spares)
    return engine, share, nodes


def _wants_gpus(share: Share) -> bool:
    return share.devices in ("cuda", "rocm")


def _cpus(spec: Spec) -> int:
    return spec.nproc * (spec.placement.cpus_per_rank or 1)


__all__ = ["NAMES", "EngineError", "choose"]
