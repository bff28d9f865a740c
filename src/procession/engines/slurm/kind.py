"""`--engine slurm`: an allocation of Slurm."""

from __future__ import annotations

import os

from procession.engines.contract import Chosen, Request
from procession.engines.slurm.allocation import read_task
from procession.engines.slurm.engine import Slurm
from procession.values.errors import SpecError


def choose(request: Request) -> Chosen:
    """Make the engine for a request; nothing is started yet. Raises SpecError, EngineError."""
    share, nodes = request.share, request.nodes
    if request.spares:
        raise SpecError(
            "spare nodes of Slurm are those that an allocation has beyond --nnodes: ask for "
            "more of them"
        )
    spec = share.spec
    task = read_task(os.environ)
    if task is not None and task.count > 1:
        raise SpecError(
            f"this program is one of {task.count} tasks of srun, and each would drive a job over "
            "the whole allocation: start it once, without srun before it; or let them find each "
            'other: procession run without --engine, procession.run(..., rendezvous="HOST:PORT")'
        )
    engine = Slurm(grace=spec.stop.grace + spec.stop.notice)
    found = engine.allocation
    there = len(found.nodes)
    if nodes is not None and nodes > there:
        raise SpecError(
            f"{nodes} nodes are asked for, but the allocation (job {found.job}) has {there}"
        )
    if found.cpus_per_task and not spec.placement.chooses_cpus:
        placement = spec.placement.__replace__(cpus_per_rank=found.cpus_per_task)
        share = share.__replace__(spec=spec.__replace__(placement=placement))
    if found.gpus_per_task and not share.devices:
        share = share.__replace__(gpus=found.gpus_per_task)
    return Chosen(engine, share, nodes or there)
