"""The subcommands of `procession`: their names, what each does, and how their words are read."""

from __future__ import annotations

from collections.abc import Sequence

from procession.cli.words import Option, Parser

COMMANDS = {
    "run": "run a program as a group of ranks",
    "adopt": "run a program in which torch's launchers are procession's",
    "ps": "list what runs here, and what ran",
    "logs": "show what the ranks of a run write",
    "attach": "come back to a run, and stay until it ends",
    "stop": "end a run",
    "report": "tell how a run is, or how it ended",
    "stacks": "show what each rank of a run is doing",
    "debug": "stop in any rank, with Python's debugger",
    "clean": "end and remove what launchers that were killed have left",
    "warm": "list or end what is kept for the next run",
    "explain": "tell what a message means, why it comes, and what to do",
    "doctor": "tell what this machine offers, and what falls back",
    "completion": "print a script by which bash, zsh or tcsh completes this command",
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
  procession run --detach -n 4 train.py       the same, without this terminal
  procession attach last                      and back to it
  procession doctor                           what this machine offers
"""
WHICH = """\
RUN is the id of a run, the beginning of one, a name, a launcher's pid, the number of the Slurm job
in which it runs (also from another machine of the cluster), the directory of a run, or `last`: the
newest run that was started in this directory."""


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
