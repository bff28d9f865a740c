"""What the commands have in common that look at runs, or steer them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from procession.cli import COMMANDS
from procession.cli.parser import Parser
from procession.control.runs import NotFound, Run, find_run
from procession.output.rundir import masked_words

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

WHICH = """\
RUN is the id of a run, the beginning of one, a name, a launcher's pid, the directory of a run, or
`last`: the one that began last."""


def parser_of(command: str, usage: str, epilog: str) -> Parser:
    """Make the parser of a command. epilog: its exit codes, and examples."""
    which = f"{WHICH}\n\n" if "RUN" in usage else ""
    return Parser(
        f"procession {command}",
        hint=f"; see procession {command} --help",
        usage=f"procession {command} {usage}",
        description=f"{COMMANDS[command].capitalize()}.",
        epilog=which + epilog,
    )


def read_run(parser: Parser, words: Sequence[str]) -> tuple[Namespace, Run]:
    """Read the options, and find the one RUN; refuses what is none."""
    options, rest = parser.read_mixed(words)
    if len(rest) != 1:
        parser.error("say which run: see `procession ps`" if not rest else f"one RUN, not {rest}")
    try:
        return options, find_run(rest[0])
    except NotFound as e:
        parser.error(str(e))


def read_alone(parser: Parser, words: Sequence[str]) -> Namespace:
    """Read the options of a command that takes nothing else."""
    options, rest = parser.read_mixed(words)
    if rest:
        parser.error(f"it takes no words beside its options, such as {rest[0]!r}")
    return options


def command_line(words: Sequence[str]) -> str:
    """Write a command line without its secrets."""
    return shlex.join(masked_words(words))


__all__ = ["WHICH", "command_line", "parser_of", "read_alone", "read_run"]
