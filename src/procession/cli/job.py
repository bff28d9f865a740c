"""`procession run --engine`: a request becomes a job over several nodes, and an exit code."""

from __future__ import annotations

import os
from collections.abc import Callable

from procession.cli.engine_request import SENT, EngineRequest
from procession.cli.request import Request
from procession.cli.run import exit_code, settled
from procession.cli.say import refuse, say_note
from procession.cli.signals import RunSignals, woken_by_signals
from procession.engines.contract import EngineError
from procession.engines.job import Job
from procession.engines.registry import choose
from procession.engines.slurm.allocation import is_in_job
from procession.engines.slurm.commands import Needs
from procession.engines.work import Share, divide
from procession.forkserver.boot import own_python
from procession.group.handle import CONTROL
from procession.values.errors import SpecError
from procession.values.events import Event
from procession.values.spec import Spec

OnEvent = Callable[[Event], object]

OF_GPUS = ("cuda", "rocm", "intel")  # what is dealt out of Slurm's GPUs


def first_node(request: Request) -> Spec:
    """Give what node 0 would run, for --dry-run."""
    assert request.engine is not None
    nodes = request.engine.nodes
    if nodes is None and request.engine.name == "slurm":
        from procession.engines.slurm.allocation import read_allocation

        found = read_allocation(os.environ)
        nodes = len(found.nodes) if found is not None else None
    node = request.spec.node.__replace__(count=nodes or 1)
    return request.spec.__replace__(node=node)


def run_job(
    prog: str, request: Request, on: EngineRequest, on_event: OnEvent | None
) -> tuple[int, Job]:
    """Run what was asked for on an engine; gives the exit code, and the job."""
    os.environ.pop(SENT, "")
    job = _made(prog, request, on, on_event)
    signals = job_signals(job, request)
    return conducted(job, signals), job


def job_signals(job: Job, request: Request) -> RunSignals:
    """Give what signals mean for a job, to its driver and to its agents."""
    return RunSignals(
        job,
        request.signals,
        request.notices,
        request.forward,
        say=job.say,
        repeated=is_in_job(os.environ),
    )


def conducted(job: Job, signals: RunSignals) -> int:
    """Drive a job to its end, and say how it ended; gives the exit code."""
    job.tell_place()
    job.drain_patiently()
    if not job.run_dir:
        job.stop_when_unread()
    job.conclude_later()
    code = 1
    try:
        with woken_by_signals(job), signals.taken():
            job.on_signal(signals.agent_got)
            job.drive()
        code = exit_code(job, signals.received)
    finally:
        code = settled(job, code)
    return code


def _made(prog: str, request: Request, on: EngineRequest, on_event: OnEvent | None) -> Job:
    spec = request.spec
    try:
        chosen = choose(on.name, Share(spec, on.devices), on.nodes, on.spares, on.options)
        return Job(
            divide(chosen.share, chosen.nodes),
            chosen.engine,
            lease=on.lease,
            link_encryption=on.link_encryption,
            on_failure=spec.on_failure,
            on_event=on_event,
            control=os.environ.get(CONTROL) != "0",
        )
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    except OSError as e:
        refuse(prog, f"cannot prepare the run: {e}")


def _needs(spec: Spec, on: EngineRequest) -> Needs | None:
    """Give what is to be asked for on each node; None where nodes say how many ranks they have."""
    from procession.engines.slurm.commands import Needs

    if on.counted:
        return None
    return Needs(spec.nproc, spec.placement.cpus_per_rank, on.devices in OF_GPUS)


def submit_job(prog: str, request: Request, on: EngineRequest, words: list[str]) -> int:
    """Send a job to Slurm that runs this command line; gives the exit code."""
    import shlex

    from procession.engines.slurm.submit import submit

    try:
        options = shlex.split(on.options.get("engine_options", ""))
    except ValueError as e:
        refuse(
            prog,
            f"--engine-options are no words of a shell ({e}): {on.options['engine_options']!r}",
        )

    command = ["env", f"{SENT}=1", *own_python("procession.cli:command", "run", *words)]
    stop = request.spec.stop
    try:
        return submit(
            command,
            name=request.spec.name,
            nodes=on.nodes,
            time=on.options.get("time", ""),
            partition=on.options.get("partition", ""),
            account=on.options.get("account", ""),
            needs=_needs(request.spec, on),
            arguments=options,
            detach=request.detach,
            grace=stop.notice + stop.grace + stop.reap,
            say=say_note,
        )
    except (EngineError, SpecError, ValueError) as e:
        refuse(prog, str(e))
