"""`procession run --engine`: a command line becomes a job over several nodes, and an exit code."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

from procession.cli.asked import Asked
from procession.cli.parts import is_number
from procession.cli.rendezvous import NUMBERING
from procession.cli.run import exit_code, forwarded, stopped_by_signals, woken_by_signals
from procession.cli.say import refuse, say
from procession.cli.settings import Settings
from procession.engines.choose import NAMES, choose
from procession.engines.contract import EngineError
from procession.engines.driver import LEASE
from procession.engines.job import Job
from procession.engines.work import Share, divide
from procession.errors import SpecError
from procession.spec import Spec
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from procession.engines.slurm_allocation import Task
    from procession.events import Event

    OnEvent = Callable[[Event], object]

OF_MEETING = (
    "node_rank", "master_addr", "master_port", "rdzv_endpoint", "standalone", "local_addr",
    "rdzv_conf",
)  # fmt: skip
OF_ONE_MACHINE = ("live", "status", "logs_specs", "virtual_local_rank")
NO_ENGINE = "none"  # whatever has started this command
SENT = "PROCESSION_SENT"  # in the environment of a command line that a job runs
OF_SUBMISSION = ("time", "partition", "account", "engine_options")


class OnEngine(Value):
    """What is asked of an engine. nodes: None for all that it has. spares: nodes that are held
    ready. lease: seconds.

    devices: dealt out on each node. time, partition, account, options: for a job that is sent.
    """

    name: str
    nodes: int | None
    spares: int = 0
    lease: float = LEASE
    devices: str = ""
    time: str = ""
    partition: str = ""
    account: str = ""
    options: str = ""


def read_engine(s: Settings) -> OnEngine:
    """Read the options about engines. Raises SpecError."""
    name = s.text("engine")
    if name not in NAMES:
        raise SpecError(
            f"{s.where('engine')} must be {', '.join(NAMES)} or {NO_ENGINE}, not {name!r}"
        )
    for each in (*OF_MEETING, *OF_ONE_MACHINE):
        if s.said(each):
            why = "is for the ranks of one machine"
            if each in OF_MEETING:
                why = (
                    "is not needed: the engine numbers the nodes, and node 0 says where ranks meet"
                )
            raise SpecError(f"{s.where(each)} {why}; it does not go with {s.where('engine')}")
    if s.said("stdin") and s.text("stdin") != "none":
        raise SpecError(
            f"{s.where('stdin')}: ranks on other machines cannot read this command's input"
        )
    for each in OF_SUBMISSION:
        if s.said(each) and name != "slurm":
            raise SpecError(f"{s.where(each)} is for --engine slurm")
    nodes = s.text("nnodes") if s.said("nnodes") else ""
    if nodes and (not is_number(nodes) or not int(nodes)):
        raise SpecError(f"{s.where('nnodes')} must be a count of 1 or more, not {nodes!r}")
    return OnEngine(
        name=name,
        nodes=int(nodes) if nodes else None,
        spares=_spares(s),
        lease=_lease(s),
        devices=s.text("devices"),
        time=s.text("time"),
        partition=s.text("partition"),
        account=s.text("account"),
        options=s.text("engine_options"),
    )


def _spares(s: Settings) -> int:
    text = s.text("spare_nodes") or "0"
    if not is_number(text):
        raise SpecError(f"{s.where('spare_nodes')} must be a count, 0 or more, not {text!r}")
    return int(text)


def _lease(s: Settings) -> float:
    if not s.said("lease"):
        return LEASE
    try:
        seconds = float(s.text("lease"))
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < 1e6:
        raise SpecError(f"{s.where('lease')} must be seconds, 1 or more, not {s.text('lease')!r}")
    return seconds


def find_engine(s: Settings) -> OnEngine | None:
    """Give the engine that is asked for, by --engine or by srun, which has started this command.

    Of several tasks of srun, one on each node, only the first one returns: it is the driver, and
    the others become its agents. Raises SpecError.
    """
    from procession.engines.slurm_allocation import read_task

    try:
        task = read_task(os.environ)
        if task is not None and task.count < 2:
            task = None  # a shell, or a launcher of its own
        if not s.said("engine"):
            if task is None or max(task.tasks_on_nodes) > 1 or _is_numbered(s):
                return None  # what `rendezvous` can read, it reads
            if shutil.which("munge") is None:
                return None  # tasks cannot find each other
            s.add("engine", "slurm", "srun")
        if s.text("engine") == NO_ENGINE:
            return None
        engine = read_engine(s)
        if engine.name != "slurm":
            return engine
        if task is None:
            take_allocation(s)
        elif task.number:
            become_agent(task)
    except EngineError as e:
        raise SpecError(str(e)) from None
    return engine


def _is_numbered(s: Settings) -> bool:
    """Whether somebody has said where this machine stands, or we are in a rank of a group."""
    said = s.given((*NUMBERING, "master_addr", "master_port"))
    return said or "MASTER_ADDR" in os.environ or "PROCESSION_RUN" in os.environ


def become_agent(task: Task) -> NoReturn:
    """Be an agent of the driver in task 0. Raises EngineError."""
    from procession.engines.slurm_step import become_agent as become

    become(task)


def take_allocation(s: Settings) -> None:
    """Take from Slurm's allocation what the command line leaves open. Raises EngineError."""
    from procession.engines.slurm_allocation import read_allocation

    found = read_allocation(os.environ)
    if found is not None and found.tasks_per_node and not s.said("nproc_per_node"):
        s.add("nproc_per_node", str(found.tasks_per_node), "SLURM_NTASKS_PER_NODE")


def first_node(asked: Asked) -> Spec:
    """Give what node 0 would run, for --dry-run."""
    assert asked.engine is not None
    nodes = asked.engine.nodes
    if nodes is None and asked.engine.name == "slurm":
        from procession.engines.slurm_allocation import read_allocation

        found = read_allocation(os.environ)
        nodes = len(found.nodes) if found is not None else None
    node = asked.spec.node.__replace__(count=nodes or 1)
    return asked.spec.__replace__(node=node)


def run_on_engine(prog: str, asked: Asked, words: list[str], on_event: OnEvent | None) -> int:
    """Run what was asked for on an engine; gives the exit code."""
    on = asked.engine
    assert on is not None
    if on.name == "slurm" and not os.environ.get("SLURM_JOB_ID"):
        return _submit(prog, asked, on, words)
    if not os.environ.pop(SENT, ""):  # else these were for the command that sent this one
        for name in OF_SUBMISSION:
            if getattr(on, "options" if name == "engine_options" else name):
                option = "--" + name.replace("_", "-")
                refuse(
                    prog, f"{option} is for a job that is sent: this is in an allocation already"
                )
        if asked.detach:
            refuse(prog, "--detach and --engine: only a job that is sent goes on by itself")
    if not asked.json:
        return _run(_made(prog, asked, on, on_event), asked)
    from procession.cli.told import console_on_stderr, tell

    began = time.monotonic()
    with console_on_stderr():
        job = _made(prog, asked, on, on_event)
        code = _run(job, asked)
    tell(job.spec, job, code, began)
    return code


def _made(prog: str, asked: Asked, on: OnEngine, on_event: OnEvent | None) -> Job:
    try:
        engine, share, nodes = choose(
            on.name, Share(asked.spec, devices=on.devices), on.nodes, on.spares
        )
        spec = asked.spec
        return Job(
            divide(share, nodes),
            engine,
            lease=on.lease,
            on_failure=spec.on_failure,
            on_event=on_event,
        )
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    except OSError as e:
        refuse(prog, f"cannot prepare the run: {e}")


def _run(job: Job, asked: Asked) -> int:
    if job.run_dir:
        job.say(f"procession: logs in {job.run_dir}")
    job.drain_patiently()
    if not job.run_dir:
        job.stop_when_unread()
    job.conclude_later()
    code = 1
    try:
        with (
            woken_by_signals(job),
            forwarded(job, asked.forward),
            stopped_by_signals(job, asked.signals, asked.notices) as received,
        ):
            job.on_signal(_on_signal(job, asked, received))
            job.drive()
        code = exit_code(job, received)
    finally:
        job.conclude(code)
    return code


def _on_signal(job: Job, asked: Asked, received: list[int]) -> Callable[[int, str], None]:
    """Say what a signal means that an agent got: the same as if this command had got it.

    An engine signals all nodes; so it is the first one that counts.
    """
    heard: set[int] = set()

    def take(number: int, host: str) -> None:
        if number in heard:
            return
        heard.add(number)
        name = signal.Signals(number).name
        handler = signal.getsignal(number)
        known = number in asked.notices or number in asked.signals or number in asked.forward
        if known and callable(handler):
            job.say(f"procession: {host} got {name}")
            if not (received and number not in asked.forward):
                handler(number, None)
        elif number == signal.SIGTERM:
            job.stop(signal=number, wait=False)
        else:
            job.say(
                f"procession: {host} got {name}, which does nothing here: see --forward, --preempt"
            )

    return take


def _submit(prog: str, asked: Asked, on: OnEngine, words: list[str]) -> int:
    import shlex

    from procession.engines.slurm_submit import submit

    if asked.json:
        refuse(prog, "--json: a job that is sent has one file for all its output; use --log-dir")
    try:
        options = shlex.split(on.options)
    except ValueError as e:
        refuse(prog, f"--engine-options {on.options!r}: {e}")

    command = ["env", f"{SENT}=1", sys.executable, "-m", "procession", "run", *words]
    stop = asked.spec.stop
    try:
        return submit(
            command,
            name=asked.spec.name,
            nodes=on.nodes,
            time=on.time,
            partition=on.partition,
            account=on.account,
            arguments=options,
            detach=asked.detach,
            grace=stop.notice + stop.grace + stop.reap,
            say=lambda text: say(f"procession: {text}\n", sys.stderr),
        )
    except (EngineError, SpecError, ValueError) as e:
        refuse(prog, str(e))


__all__ = ["OnEngine", "find_engine", "run_on_engine"]
