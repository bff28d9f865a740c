"""`procession report`: how a run is, or how it ended."""

from __future__ import annotations

import os
import sys

from procession.cli.parser import Parser
from procession.cli.say import say
from procession.cli.steering import parser_of, read_run
from procession.control.ask import NotAnswered
from procession.control.runs import Run, connect
from procession.output.rundir import open_regular

EPILOG = """\
Of a run that has ended, its directory has the report: give --log-dir, or --detach, to keep one.

exit codes: 0 if there is something to report; 1 if not; 2 for a wrong command line, or where there
is no such run.
"""


def make_parser() -> Parser:
    """Make the parser."""
    return parser_of("report", "RUN", EPILOG)


def main(words: list[str]) -> int:
    """Print the report; returns the exit code."""
    _, run = read_run(make_parser(), words)
    if run.socket:
        try:
            with connect(run) as connection:
                say(connection.ask("report") + "\n", sys.stdout)
            return 0
        except NotAnswered as e:
            fault = str(e)
    else:
        fault = "it was started by a program without control=True, and cannot be asked"
        if run.state == "LOST":
            fault = f"its launcher was killed; what there is of it lies in {run.directory}"
    text = report_in(run)
    if text:
        say(text, sys.stdout)
        return 0
    say(f"procession report: error: {run.id}: {fault}\n", sys.stderr)
    return 1


def report_in(run: Run) -> str:
    """Give the report that a run has left in its directory, "" if there is none."""
    try:
        with open_regular(os.path.join(run.directory, "report.txt")) as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


__all__ = ["main", "make_parser", "report_in"]
