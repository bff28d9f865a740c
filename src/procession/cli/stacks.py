"""`procession stacks`: what each rank of a run is doing."""

from __future__ import annotations

import json
import sys

from procession.cli.parser import Parser
from procession.cli.say import say
from procession.cli.steering import parser_of, read_run
from procession.control.ask import NotAnswered
from procession.control.runs import connect
from procession.stacks import merge

EPILOG = """\
exit codes: 0; 1 if the run cannot tell; 2 for a wrong command line, or where there is no such run.
"""


def make_parser() -> Parser:
    """Make the parser."""
    parser = parser_of("stacks", "RUN [--native] [--json]", EPILOG)
    parser.add_argument(
        "--native", action="store_true", help="also the frames of native code, by py-spy"
    )
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
            group = connection.ask("look")
            found = connection.ask("stacks", native=bool(options.native))
    except NotAnswered as e:
        say(f"procession stacks: error: {e}\n", sys.stderr)
        return 1
    if options.json:
        text = json.dumps(found, indent=2)
    else:
        text = merge.format(found, first=int(group["first"]))
    say(text.rstrip("\n") + "\n", sys.stdout)
    return 0


__all__ = ["main", "make_parser"]
