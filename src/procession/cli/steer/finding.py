"""Finds the run that a command is about; what these commands share.

Where the launcher of a run is on another machine, the command is run there, or it is said where to
type it. In a job of Slurm, Slurm itself takes us there: a small step beside those of the job, on
the machine where its script runs. That needs no port, no key and no shared directory.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module

from procession.agent.boot import own_python
from procession.cli.commands import STEERING
from procession.cli.say import say_line
from procession.cli.words import Parser
from procession.control.ask import NotAnswered, sockets
from procession.control.leftover import read_processes
from procession.control.runs import NotFound, Run, find_run
from procession.values.masking import masked_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.words import Given

THERE = "PROCESSION_THERE"  # in the environment of a command that has been taken there
COMMAND = "procession.cli:command"
OF_NO_RUN = ("ps", "clean")  # the others are about one run


def read_run(parser: Parser, words: Sequence[str]) -> tuple[Given, Run]:
    """Read the options, and find the run that RUN names."""
    options, rest = parser.read(words, mixed=True)
    if len(rest) != 1 or not rest[0]:
        rest = [*filter(None, rest)]
        parser.error("name a run; procession ps lists them" if not rest else f"one RUN, not {rest}")
    try:
        run = find_run(rest[0])
    except NotFound as e:
        _look_elsewhere(parser, words, rest[0])
        parser.error(str(e))
    if run.state == "AWAY":
        if run.slurm_job:
            _go_by_slurm(parser, words, run.slurm_job)
        parser.error(f"{run.id} is driven from {run.host}: type this command there")
    return options, run


def _look_elsewhere(parser: Parser, words: Sequence[str], word: str) -> None:
    """Look for a run of this name elsewhere, and run the command there; returns if none is known.

    Refuses one that runs here and cannot be asked.
    """
    if word.isdecimal():
        _go_by_slurm(parser, words, word)
    for process in read_processes().values():
        job, host = process.env.get("PROCESSION_JOB", ""), process.env.get("PROCESSION_DRIVER", "")
        if job and host != os.uname().nodename and word in (job, job.rpartition("_")[0]):
            parser.error(
                f"the ranks here are part of {job}, which is one run, driven from {host}: "
                f"type `{parser.prog} {job}` there"
            )
        run = process.env.get("PROCESSION_RUN", "")
        apart = process.env.get("GROUP_WORLD_SIZE", "1") != "1" and run not in sockets()
        if run and apart and word in (run, "last"):
            parser.error(
                f"the ranks here are part of {run}, a run of several launchers: type "
                f"`{parser.prog} {run}` where the one runs that hosts the rendezvous"
            )
        if run == word:
            parser.error(
                f"{word} cannot be reached: it was started without control=True, or with "
                "PROCESSION_CONTROL=0; PROCESSION_CONTROL=1 in its environment lets commands in"
            )


def _go_by_slurm(parser: Parser, words: Sequence[str], job: str) -> None:
    """Exec this command on the machine that runs a job's script; returns if there is none."""
    if os.environ.get(THERE) or shutil.which("srun") is None or shutil.which("scontrol") is None:
        return
    from procession.engines.contract import EngineError
    from procession.engines.slurm.processes import ask, fact

    try:
        said = ask(("scontrol", "show", "job", "--oneliner", job), os.environ)
    except EngineError:
        return  # Slurm has forgotten it, or does not answer
    state, host = fact(said, "JobState"), fact(said, "BatchHost")
    if state != "RUNNING":
        parser.error(f"job {job} of Slurm is {state.lower().replace('_', ' ')}: nothing runs there")
    command = parser.prog.rpartition(" ")[2]
    pty = ["--pty"] if command == "attach" and os.isatty(0) and os.isatty(1) else []
    line = [
        "srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={host}",
        "--quiet", "--disable-status", "--unbuffered", *pty, *own_python(COMMAND, command, *words),
    ]  # fmt: skip
    env = {n: v for n, v in os.environ.items() if not n.startswith("SLURM_") or n == "SLURM_CONF"}
    sys.stdout.flush()
    plain = {} if os.isatty(1) else {"NO_COLOR": "1"}  # there, it writes to a terminal of srun's
    os.execvpe(line[0], line, {**env, **plain, THERE: "1"})


def read_alone(parser: Parser, words: Sequence[str]) -> Given:
    """Read the options of a command that takes nothing else."""
    options, rest = parser.read(words, mixed=True)
    if rest:
        parser.error(f"it takes no words beside its options, such as {rest[0]!r}")
    return options


def steer(command: str, words: list[str]) -> int:
    """Run a command; gives its exit code, 1 where the run is not there to answer."""
    module = import_module(f"procession.cli.steer.{STEERING[command]}")
    parser, call = module.PARSERS[command], getattr(module, command)
    try:
        if command in OF_NO_RUN:
            return call(read_alone(parser, words))
        return call(*read_run(parser, words))
    except NotAnswered as e:
        say_line(f"procession {command}: error: {e}")
        return 1


def command_line(words: Sequence[str]) -> str:
    """Write a command line without its secrets."""
    return shlex.join(masked_words(words))
