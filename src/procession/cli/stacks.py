"""`procession stacks`: what each rank of a run is doing."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from procession.cli.parser import Parser
from procession.cli.say import say
from procession.cli.steering import parser_of, read_run
from procession.control.ask import NotAnswered
from procession.control.runs import connect

EPILOG = """\
exit codes: 0; 1 if the run cannot tell; 2 for a wrong command line, or where there is no such run.
"""
FORMATTER = "procession.stacks"  # its `merge` makes text of what `Group.stacks` gives


def make_parser() -> Parser:
    """Make the parser."""
    parser = parser_of("stacks", "RUN [--json]", EPILOG)
    parser.add_argument("--json", action="store_true", help="print what is known as JSON")
    return parser


def main(words: list[str]) -> int:
    """Print the stacks; returns the exit code."""
    parser = make_parser()
    options, run = read_run(parser, words)
    if not run.socket:
        parser.error(f"{run.id} {'cannot be reached' if run.runs else 'has ended'}")
    try:
        with connect(run) as connection:
            found = connection.ask("stacks")
    except NotAnswered as e:
        say(f"procession stacks: error: {e}\n", sys.stderr)
        return 1
    text = json.dumps(found, indent=2) if options.json else _merged(found)
    say(text.rstrip("\n") + "\n", sys.stdout)
    return 0


def _merged(found: Any) -> str:
    if find_spec(FORMATTER) is None:
        return json.dumps(found, indent=2)
    return str(import_module(FORMATTER).merge(found))


__all__ = ["main", "make_parser"]
