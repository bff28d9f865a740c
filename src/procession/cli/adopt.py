"""`procession adopt`: run a program in which torch's launchers are procession's.

The program takes this process's place, with two variables by which its interpreter adopts at its
start (see `adoption/adopting.py`): so it is run by its own interpreter, as it would be without us.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import NoReturn

from procession.adoption.adopting import variables
from procession.cli.commands import COMMANDS
from procession.cli.programs import choose_program
from procession.cli.words import Option, Parser
from procession.values.errors import SpecError
from procession.values.program import Command, Module

PROG = "procession adopt"
OPTIONS = (Option(("-m", "--module"), "", "run PROGRAM as a Python module, as python -m does"),)
DESCRIPTION = f"""\
{COMMANDS["adopt"].capitalize()}.

In PROGRAM and in Python programs that it starts, these functions of torch start groups of
procession: torch.distributed.run and .launch, elastic_launch, launch_agent, start_processes of
elastic, and spawn and start_processes of torch.multiprocessing. Output, log files, exceptions and
exit codes do not change."""
EPILOG = """\
examples:
  procession adopt -- accelerate launch --num_processes 4 train.py
  procession adopt -- tune run --nproc_per_node 4 full_finetune_distributed --config my.yaml
  procession adopt -- python train.py
  procession adopt -- torchx run -s local_cwd dist.ddp -j 1x4 --script train.py
"""
PARSER = Parser(
    PROG,
    {"": OPTIONS},
    usage=f"{PROG} [-m] [--] PROGRAM [ARGUMENT ...]",
    description=DESCRIPTION,
    epilog=EPILOG,
)


def main(words: list[str]) -> NoReturn:
    """Become the program. Raises SystemExit(2) for what cannot be run."""
    options, rest = PARSER.read(words)
    if not rest:
        PARSER.error(f"PROGRAM is missing; type {PROG} -- accelerate launch train.py")
    command = _command(rest, module=bool(options.get("module")))
    env = {**os.environ, **variables(os.environ)}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        os.execve(command[0], command, env)
    except OSError as e:
        PARSER.error(f"cannot run {command[0]}: {e.strerror}")


def _command(words: list[str], *, module: bool) -> list[str]:
    """Give the command line of a program, its first word a path."""
    try:
        program = choose_program(words[0], "module" if module else "")
    except SpecError as e:
        PARSER.error(str(e))
    if isinstance(program, Command):
        return [words[0] if "/" in words[0] else shutil.which(words[0]) or words[0], *words[1:]]
    return [sys.executable, *["-m"] * isinstance(program, Module), *words]
