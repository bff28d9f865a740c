"""Finds the run that a command is about; what these commands share."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib import import_module

from procession.cli.say import say_line
from procession.cli.steer.elsewhere import go_elsewhere, look_elsewhere
from procession.cli.words import Parser
from procession.control.ask import NotAnswered
from procession.control.runs import NotFound, Run, find_run
from procession.values.masking import masked_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.cli.words import Given


def read_run(parser: Parser, words: Sequence[str]) -> tuple[Given, Run]:
    """Read the options, and find the run that RUN names."""
    options, rest = parser.read(words, mixed=True)
    if len(rest) != 1 or not rest[0]:
        rest = [*filter(None, rest)]
        parser.error("say which run: see `procession ps`" if not rest else f"one RUN, not {rest}")
    try:
        run = find_run(rest[0])
    except NotFound as e:
        look_elsewhere(parser, words, rest[0])
        parser.error(str(e))
    if run.state == "AWAY":
        go_elsewhere(parser, words, run)
    return options, run


def read_alone(parser: Parser, words: Sequence[str]) -> Given:
    """Read the options of a command that takes nothing else."""
    options, rest = parser.read(words, mixed=True)
    if rest:
        parser.error(f"it takes no words beside its options, such as {rest[0]!r}")
    return options


def steer(command: str, words: list[str]) -> int:
    """Run a command; gives its exit code, 1 where the run is not there to answer."""
    try:
        return import_module(f"procession.cli.steer.{command}").main(words)
    except NotAnswered as e:
        say_line(f"procession {command}: error: {e}")
        return 1


def command_line(words: Sequence[str]) -> str:
    """Write a command line without its secrets."""
    return shlex.join(masked_words(words))
