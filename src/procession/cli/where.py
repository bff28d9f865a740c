"""`procession run`: reads the command line, and decides where it runs.

That is this machine, the machines of an engine, or a launcher that goes on without this terminal.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from functools import partial

from procession.cli.options import RUN, TORCHRUN
from procession.cli.request import Request, read_request
from procession.cli.say import refuse, say_note, say_out
from procession.values.errors import GroupEnd, SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from procession.cli.detach import Waiter
    from procession.cli.location import EngineRequest

OF_GPUS = ("cuda", "rocm", "intel")  # what is dealt out of Slurm's GPUs


def main(words: list[str], *, torchrun: bool = False) -> int:
    """Run the group that the words describe; returns the exit code.

    torchrun: they are torchrun's words. Raises SystemExit for a wrong command line, and for --help.
    """
    prog = TORCHRUN if torchrun else RUN
    try:
        request = read_request(words, torchrun=torchrun)
        if request.dry:
            return _describe(request)
    except SpecError as e:
        refuse(prog, str(e))
    engine, waiter = request.engine, None
    if engine is not None and engine.name == "slurm" and "SLURM_JOB_ID" not in os.environ:
        _refuse_outside(prog, request, engine, words)
    if request.detach:
        from procession.cli.detach import detach

        waiter = detach()
        if isinstance(waiter, int):
            return waiter
    for note in request.notes:
        say_note(note)
    return _run(prog, request, waiter)


def _describe(request: Request) -> int:
    """Say what would be run. Raises SpecError."""
    from procession.cli.dry_run import describe

    spec, engine = request.spec, request.engine
    terms = engine.terms if engine is not None else None
    if terms is not None and not terms.tells:
        return 0  # another launcher describes the same on this console
    if engine is not None and (terms is None or terms.number is None):
        spec = spec.__replace__(node=spec.node.__replace__(count=engine.nodes or 1))
    for note in request.notes:
        say_note(note)
    say_out(describe(spec, request.settings.elsewhere()))
    return 0


def _run(prog: str, request: Request, waiter: Waiter | None) -> int:
    """Run the group, or the job; gives the exit code."""
    engine, began = request.engine, time.monotonic()
    with _console_on_stderr() if request.json else nullcontext():
        if engine is not None and engine.terms is not None:
            from procession.cli.together import run_together

            launch = partial(run_together, terms=engine.terms)
        else:
            from procession.cli.run import run_group

            launch = partial(run_group, waiter=waiter)
        if not gc.isenabled():  # see `leave_after`; what is there now is left alone
            gc.freeze()
            gc.enable()
        code, result = launch(prog, request)
    if request.json and (result is None or isinstance(result, GroupEnd)):
        from procession.explain.summary import summary
        from procession.rules.tables import Phase

        result = summary(request.spec, Phase.FAILED, result, code, began)
    if request.json and result:
        import json

        say_out(json.dumps(result, indent=2))
    return code


def _refuse_outside(prog: str, request: Request, on: EngineRequest, words: list[str]) -> NoReturn:
    """Refuse a run outside of an allocation of Slurm, with the line that sends it as a job.

    The script *is* the command (`exec`), so that it gets what Slurm sends to the batch script
    alone; lost nodes are the driver's business (`--no-kill`).
    """
    import shlex

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


@contextmanager
def _console_on_stderr() -> Generator[None]:
    """Send what is written to the standard output to the standard error while the block runs.

    That leaves the standard output to the result alone, as JSON.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
