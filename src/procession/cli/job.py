"""`procession run --engine`: a request becomes a job over several nodes, and an exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any, NoReturn

from procession.api.jobs import group_on
from procession.cli.live import told
from procession.cli.location import EngineRequest
from procession.cli.request import OnEvent, Request
from procession.cli.run import conduct, result_of
from procession.cli.say import refuse
from procession.cli.signals import RunSignals
from procession.engines.contract import EngineError, choose
from procession.group.group import CONTROL, Group
from procession.prepare.work import Share, divide
from procession.values.errors import SpecError

OF_GPUS = ("cuda", "rocm", "intel")  # what is dealt out of Slurm's GPUs


def run_job(
    prog: str, request: Request, on: EngineRequest, on_event: OnEvent | None
) -> tuple[int, dict[str, Any] | None]:
    """Run what was asked for on an engine; gives the exit code, and the result for --json."""
    spec = request.spec

    def make() -> Group:
        chosen = choose(on.name, Share(spec, on.devices), on.nodes, on.spares, on.options)
        return group_on(
            divide(chosen.share, chosen.nodes),
            chosen.engine,
            lease=on.lease,
            link_encryption=on.link_encryption,
            on_failure=spec.on_failure,
            on_event=on_event,
            control=os.environ.get(CONTROL) != "0",
        )

    job = made(prog, make)
    code = conduct_job(job, job_signals(job, request), None)
    return code, result_of(job, code) if request.json else None


def refuse_outside(prog: str, request: Request, on: EngineRequest, words: list[str]) -> NoReturn:
    """Refuse a run outside of an allocation of Slurm, with the line that sends it as a job.

    The script *is* the command (`exec`), so that it gets what Slurm sends to the batch script
    alone; lost nodes are the driver's business (`--no-kill`).
    """
    spec = request.spec
    needs = {
        "nodes": on.nodes or 1,
        "ntasks-per-node": spec.nproc,
        "cpus-per-task": spec.placement.cpus_per_rank,
        "gpus-per-node": spec.nproc if on.devices in OF_GPUS else None,
    }
    options = " ".join(f"--{name}={count}" for name, count in needs.items() if count is not None)
    script = shlex.quote(f"exec {shlex.join([*prog.split(), *words])}")
    line = f"sbatch {options} --no-kill --no-requeue --wrap {script}"
    refuse(prog, f"--engine slurm: this is not in an allocation of Slurm; to send a job: {line}")


def made(prog: str, make: Callable[[], Group]) -> Group:
    """Make a job, or refuse the command line."""
    try:
        return make()
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    except OSError as e:
        refuse(prog, f"cannot prepare the run: {e} [P305]")


def job_signals(job: Group, request: Request) -> RunSignals:
    """Give what signals mean for a job, to its driver and to its node processes."""
    return RunSignals(job, request, job.say)


def conduct_job(job: Group, signals: RunSignals, status: float | None) -> int:
    """Drive a job to its end, and say how it ended; gives the exit code. status: see `Request`."""
    if job.run_dir:
        job.say(f"procession: logs in {job.run_dir}")
    else:
        job.stop_when_unread()
    return conduct(job, signals, told(job, status))
