"""`procession attach`: come back to a run that another terminal started, or that has none."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from procession.cli import readers
from procession.cli.commands import parser_of
from procession.cli.live import find_terminal, viewing
from procession.cli.say import say_line, say_note
from procession.cli.steer.finding import read_run
from procession.cli.steer.report import report_in
from procession.cli.steer.showing import CONSOLE, LOOK_EVERY, STREAMS, Files, Live, consoles
from procession.cli.words import Option
from procession.control.ask import Connection, NotAnswered
from procession.control.runs import Run, connect, read_json
from procession.output.console import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.view.live import View

LINES = 20
EPILOG = """\
The last lines of its console, then what comes, until the run ends: then its report, and its exit
code is that of this command. Ctrl-C ends this command alone: the run goes on.

exit codes: that of the run; 0 after Ctrl-C; 1 if the run's launcher was killed, or cannot be
asked; 2 for a wrong command line, or where there is no such run.
"""
PARSER = parser_of(
    "attach", "RUN [-n LINES]", EPILOG,
    (
        Option(
            ("-n", "--lines"),
            "LINES",
            f"begin with the last lines (default: {LINES})",
            read=readers.count,
        ),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Attach to a run; returns the exit code."""
    options, run = read_run(PARSER, words)
    if not run.socket and run.runs:
        why = f"a program of your own started it (pid {run.launcher})"
        raise NotAnswered(f"{run.id} cannot be asked: {why}")
    if not run.socket:
        return _tell_end(run, None, console=False)
    try:
        with connect(run) as connection:
            return _attach(run, connection, options.get("lines", LINES))
    except KeyboardInterrupt:
        say_note(f"{run.id} goes on; end it with `procession stop {run.id}`")
        return 0


def _attach(run: Run, connection: Connection, lines: int) -> int:
    terminal, _ = find_terminal()
    console = bool(run.directory) and os.path.exists(os.path.join(run.directory, CONSOLE))
    last: dict[str, Any] = {}  # what the view shows of a run that cannot be asked any more
    with ExitStack() as open_:
        shown_on = open_.enter_context(consoles(terminal))
        if not console and not connection.ask("log", lines=lines, follow=True)["seen"]:
            say_note(f"the output of {run.id} goes straight to its own terminal")
        live, files = Live(STREAMS, shown_on), Files(run.directory, None, STREAMS, lines, shown_on)
        open_.callback(files.close)
        view = open_.enter_context(_viewed(run, terminal, last))
        if console:
            files.follow()
        while connection.end is None and not (connection.closed or live.unread):
            for said in connection.events(LOOK_EVERY):
                live.take(said)
                if said.get("event") == "over":
                    last.update(said.get("look") or {})
        if live.unread:
            return 0
        if view is not None:
            view.remember()
    return _tell_end(run, connection.end, console=console)


def _tell_end(run: Run, end: dict[str, Any] | None, *, console: bool) -> int:
    """Say how it ended. console: the console has shown the report of a failure already."""
    if end is None:
        result = read_json(os.path.join(run.directory, "result.json")) if run.directory else None
        if result is None:
            say_note(f"the launcher of {run.id} was killed [P313]")
            return 1
        end = {"state": result["state"], "code": result["exit_code"], "report": report_in(run)}
    if not console or end["state"] == "SUCCEEDED":
        say_line(end["report"])
    return int(end["code"])


@contextmanager
def _viewed(run: Run, terminal: Console | None, last: dict[str, Any]) -> Generator[View | None]:
    """Show the live view of a run on a terminal, if there is one that can show it.

    last: keeps what was seen last.
    """
    if terminal is None:
        yield None
        return

    def look() -> dict[str, Any]:
        with suppress(NotAnswered), connect(run) as connection:
            last.update(connection.ask("look"))
        return last  # of a run that has ended, the last that was seen

    look()
    with viewing(look, terminal, say_line, lambda: signal.raise_signal(signal.SIGSTOP)) as view:
        yield view
