"""The command `procession`: one file per subcommand, imported when it is asked for."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from procession.cli.parser import Parser, near
from procession.cli.say import refuse, say

DESCRIPTION = """\
Launch n copies of a program as one group of ranks: they start together, fail
together, say why, and leave nothing behind."""

COMMANDS = {
    "run": "run a program as a group of ranks",
    "doctor": "tell what this machine offers, and what falls back",
    "completion": "print a script by which bash, zsh or fish completes this command",
}

EPILOG = f"""\
commands:
{chr(10).join(f"  {name:<10} {text}" for name, text in COMMANDS.items())}

examples:
  procession run -n 4 train.py --epochs 3     a Python script, four ranks
  procession run -n 4 -m mypackage.train      a Python module
  procession run -n 2 ./a.out input.dat       any program
  procession doctor                           what this machine offers
"""
INTERRUPTED = 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Raises SystemExit(2) for a wrong one."""
    try:
        return _command(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return INTERRUPTED


def _command(words: list[str]) -> int:
    parser = Parser(
        "procession",
        hint="; the options of a run stand behind `procession run`",
        usage="procession [-h] [--version] COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    options, rest = parser.read(words)
    if options.version:
        from procession import __version__

        say(f"procession {__version__}\n", sys.stdout)
        return 0
    if not rest:
        parser.print_help()
        return 2
    command, *words = rest
    if command == "run":
        from procession.cli import run

        return run.main(words)
    if command == "doctor":
        return _doctor(words)
    if command == "completion":
        return _completion(words)
    return _unknown(command)


def _unknown(command: str) -> NoReturn:
    meant = near(command, COMMANDS, 0.6)
    hint = f"to run a program, write `procession run {command}`"
    if meant:
        hint = f"did you mean `procession {meant}`?"
    refuse("procession", f"there is no command {command!r}; {hint}")


def _completion(words: list[str]) -> int:
    from procession.cli import completion

    shells = ", ".join(completion.SHELLS)
    parser = Parser(
        "procession completion",
        usage="procession completion SHELL",
        description=f"{COMMANDS['completion'].capitalize()}. SHELL is one of {shells}.\n"
        'For bash and zsh: eval "$(procession completion bash)"',
    )
    _, rest = parser.read(words)
    if len(rest) != 1 or rest[0] not in completion.SHELLS:
        parser.error(f"say for which shell: {shells}")
    say(completion.script(rest[0], COMMANDS, completion.parsers()), sys.stdout)
    return 0


def _doctor(words: list[str]) -> int:
    from procession.cli import doctor

    parser = Parser("procession doctor", description=f"{COMMANDS['doctor'].capitalize()}.")
    doctor.add_arguments(parser)
    options, rest = parser.read(words)
    if rest:
        parser.error(f"it takes no words beside its options, such as {rest[0]!r}")
    return doctor.main(options)
