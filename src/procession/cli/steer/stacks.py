"""`procession stacks`: what each rank of a run is doing."""

from __future__ import annotations

import json

from procession.cli.commands import parser_of
from procession.cli.say import say_out
from procession.cli.steer.finding import read_run
from procession.cli.words import Option
from procession.control.runs import connect
from procession.explain.stacks import merge

EPILOG = """\
exit codes: 0; 1 if the run cannot tell; 2 for a wrong command line, or where there is no such run.
"""
NOBODY = "no rank is at its program: they have not started yet, or have ended"
PARSER = parser_of(
    "stacks", "RUN [--native] [--json]", EPILOG,
    (
        Option(("--native",), "", "also the frames of native code, by py-spy"),
        Option(("--json",), "", "print what is known as JSON"),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Print the stacks; returns the exit code."""
    options, run = read_run(PARSER, words)
    if not run.socket:
        why = "cannot be reached" if run.runs else "has ended: no rank is there"
        PARSER.error(f"{run.id} {why}")
    with connect(run) as connection:
        group = connection.ask("look")
        found = connection.ask("stacks", native=bool(options.get("native")))
    if options.get("json"):
        text = json.dumps(found, indent=2)
    else:
        text = merge.format(found, first=int(group["first"])) or NOBODY
    say_out(text)
    return 0
