"""`procession report`: how a run is, or how it ended."""

from __future__ import annotations

import os
import shutil

from procession.cli.commands import parser_of
from procession.cli.say import say_out
from procession.cli.steer.finding import read_run
from procession.control.ask import NotAnswered
from procession.control.runs import Run, connect
from procession.control.words import describe
from procession.output.rankfiles import open_regular
from procession.system.files import disk_is_full

EPILOG = """\
Of a run that has ended, its directory has the report: give --log-dir, or --detach, to keep one.

exit codes: 0 if there is something to report; 1 if not; 2 for a wrong command line, or where there
is no such run.
"""


PARSER = parser_of("report", "RUN", EPILOG)


def main(words: list[str]) -> int:
    """Print the report; returns the exit code."""
    _, run = read_run(PARSER, words)
    if run.socket:
        try:
            with connect(run) as connection:
                columns = shutil.get_terminal_size((200, 24)).columns
                say_out(describe(connection.ask("look"), columns))
            return 0
        except NotAnswered as e:
            fault = str(e)
    else:
        fault = "it was started by a program without control=True, and cannot be asked"
        if run.state == "LOST":
            how = "its launcher was killed"
            if disk_is_full(run.directory):
                how += ", or could not write how it ended: the disk of its directory is full"
            fault = f"{how}; what there is of it lies in {run.directory}"
    text = report_in(run)
    if text:
        say_out(text)
        return 0
    raise NotAnswered(f"{run.id}: {fault}")


def report_in(run: Run) -> str:
    """Give the report that a run has left in its directory, "" if there is none."""
    try:
        with open_regular(os.path.join(run.directory, "report.txt")) as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""
