"""The subcommands of `procession`: their names, what each does, and how their words are read."""

from __future__ import annotations

from collections.abc import Sequence

from procession.cli.words import Option, Parser

COMMANDS = {
    "run": "run a program as a group of ranks",
    "adopt": "run a program with procession instead of torch's launchers",
    "ps": "list active and past runs",
    "logs": "print the output of the ranks of a run",
    "attach": "return to a run until it ends",
    "stop": "stop a run",
    "report": "print the state of a run, or how it ended",
    "stacks": "print where each rank of a run is",
    "debug": "open Python's debugger in any rank",
    "clean": "end and remove what killed launchers have left",
    "warm": "list or end processes that are kept for the next run",
    "explain": "print what a message means and what to do",
    "doctor": "print what this machine offers, and what is missing",
    "completion": "print the completion script for bash, zsh or tcsh",
}

# Those that look at runs, or steer them, and their modules in `steer`.
STEERING = {
    "ps": "looking", "logs": "showing", "attach": "showing", "stop": "ending", "report": "looking",
    "stacks": "looking", "debug": "debugging", "clean": "ending",
}  # fmt: skip

EPILOG = f"""\
commands:
{chr(10).join(f"  {name:<10} {text}" for name, text in COMMANDS.items())}

examples:
  procession run -n 4 train.py --epochs 3     a Python script, four ranks
  procession run -n 4 -m mypackage.train      a Python module
  procession run -n 2 ./a.out input.dat       any program
  procession run --detach -n 4 train.py       the same in the background
  procession attach last                      return to the run
"""
WHICH = """\
RUN is an id or its beginning, a name, the directory of a run, the pid of a launcher, or the number
of a Slurm job. `last` is the newest run that was started in this directory."""


def parser_of(command: str, usage: str, epilog: str = "", options: Sequence[Option] = ()) -> Parser:
    """Make the parser of a command. epilog: its exit codes, and examples."""
    which = f"{WHICH}\n\n" if "RUN" in usage else ""
    return Parser(
        f"procession {command}",
        {"": options},
        usage=f"procession {command} {usage}",
        description=f"{COMMANDS[command].capitalize()}.",
        epilog=which + epilog,
    )
