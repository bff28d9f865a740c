"""`procession adopt`: run a program in which torch's launchers are procession's.

The program takes this process's place, with two variables by which its interpreter adopts at its
start (see `adoption/children.py`): so it is run by its own interpreter, as it would be without us.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import NoReturn

from procession.adoption import children
from procession.cli.commands import COMMANDS
from procession.cli.programs import choose_program
from procession.cli.words import Option, Parser
from procession.values.errors import SpecError
from procession.values.program import Command, Module

PROG = "procession adopt"
OPTIONS = (
    Option(("--children",), "", "also in the Python programs that PROGRAM starts"),
    Option(("-m", "--module"), "", "PROGRAM is a Python module, as for python -m"),
)
DESCRIPTION = f"""\
{COMMANDS["adopt"].capitalize()}.

torch.distributed.run and .launch, elastic_launch, launch_agent, elastic's start_processes, and
torch.multiprocessing's spawn and start_processes launch groups of procession in it. What procession
cannot do exactly is left to torch, and one line says so. Everything else is as without this
command: output, log files, exceptions, exit codes."""
EPILOG = """\
examples:
  procession adopt -- accelerate launch --num_processes 4 train.py
  procession adopt -- tune run --nproc_per_node 4 full_finetune_distributed --config my.yaml
  procession adopt -- python train.py
  procession adopt --children -- torchx run -s local_cwd dist.ddp -j 1x4 --script train.py
"""
PARSER = Parser(
    PROG,
    {"": OPTIONS},
    usage=f"{PROG} [--children] [-m] [--] PROGRAM [ARGUMENT ...]",
    description=DESCRIPTION,
    epilog=EPILOG,
)
ELF = b"\x7fELF"
NAMES_PYTHON = (b"python", b"pypy", b"pyenv")
# Options of Python, among them -I, -E or -S; what follows -W and -X is their value.
IGNORING = re.compile(r"(?:-[^-WXcm\s]*(?:[WX]\s*\S+)?\s)*(-[^-WXcm\s]*[IES]\S*)")


def main(words: list[str]) -> NoReturn:
    """Become the program. Raises SystemExit(2) for what cannot be run."""
    options, rest = PARSER.read(words)
    if not rest:
        PARSER.error(
            f"PROGRAM is missing: say what to run, as in: {PROG} -- accelerate launch train.py"
        )
    command = _command(rest, module=bool(options.get("module")))
    if not options.get("children") and not _is_python(command[0]):
        PARSER.error(
            f"{rest[0]} is no Python program: nothing would be adopted in it; write --children "
            "to adopt the Python programs that it starts",
        )
    ignored = _ignoring(command)
    if ignored and not options.get("children"):
        PARSER.error(
            f"python {ignored} does not look at PYTHONPATH, by which a program adopts: leave that "
            "option out, or call procession.adopt() in the program",
        )
    whom = children.EVERYBODY if options.get("children") else str(os.getpid())
    env = {**os.environ, **children.variables(os.environ, whom)}
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


def _ignoring(command: list[str]) -> str:
    """Give the option by which an interpreter ignores its environment, "" if there is none."""
    words = command[1:]
    if not os.path.basename(command[0]).encode().startswith(NAMES_PYTHON):
        first = _head(command[0]).partition(b"\n")[0].decode(errors="replace")
        words = first.removeprefix("#!/usr/bin/env -S").split()[1:] if first[:2] == "#!" else []
    found = IGNORING.match(" ".join(words))
    return found[1] if found else ""


def _is_python(path: str) -> bool:
    """Tell whether this is an interpreter, or a script for one."""
    head = _head(path)
    if head.startswith(ELF):
        return os.path.basename(os.path.realpath(path)).encode().startswith(NAMES_PYTHON)
    return not head or any(word in head.lower() for word in NAMES_PYTHON)


def _head(path: str) -> bytes:
    """Give the beginning of a file, b"" if it cannot be read: its exec will say why."""
    try:
        with open(path, "rb") as f:
            return f.read(512)
    except OSError:
        return b""
