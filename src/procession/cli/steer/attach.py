"""`procession attach`: come back to a run that another terminal started, or that has none."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Generator
from typing import Any

from procession.cli import readers
from procession.cli.live import find_terminal, viewing
from procession.cli.say import say
from procession.cli.signals import handled, readable_by_signals
from procession.cli.steer.finding import failed, parser_of, read_run
from procession.cli.steer.report import report_in
from procession.cli.steer.showing import STREAMS, Files, Live
from procession.cli.words import Option
from procession.control.ask import Connection, NotAnswered
from procession.control.runs import Run, connect, read_json
from procession.output.console import Console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.view.live import View

LINES = 20
QUESTION = "\nprocession: d = detach, s = stop the run, c = go on (Ctrl-C: detach) "
EPILOG = """\
The last lines of its console, then what comes, until the run ends: then its report, and its exit
code is that of this command. Ctrl-C asks whether to detach (the run goes on), or to stop the run.

exit codes: that of the run; 0 after detaching; 1 if the run's launcher was killed, or cannot be
asked; 2 for a wrong command line, or where there is no such run.
"""
PARSER = parser_of(
    "attach", "RUN [-n LINES]", EPILOG,
    (
        Option(
            ("-n", "--lines"),
            "LINES",
            f"begin with the last lines (default: {LINES})",
            read=readers.NUMBER,
        ),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Attach to a run; returns the exit code."""
    options, run = read_run(PARSER, words)
    if not run.socket:
        return _ended(run)
    try:
        with connect(run) as connection:
            return _attach(run, connection, LINES if options.lines is None else options.lines)
    except NotAnswered as e:
        return failed("attach", str(e))


def _ended(run: Run) -> int:
    """Print the report of a run that has ended; gives its exit code."""
    if run.result is None:
        why = "its launcher was killed"
        if run.runs:
            why = f"it cannot be asked: a program of your own started it (pid {run.launcher})"
        return failed("attach", f"{run.id}: {why}")
    say(report_in(run), sys.stderr)
    return int(run.result["exit_code"])


def _attach(run: Run, connection: Connection, lines: int) -> int:
    terminal, _ = find_terminal()
    with contextlib.ExitStack() as open_:
        if terminal is not None:
            open_.callback(terminal.close)
        files = None
        if run.directory and os.path.exists(os.path.join(run.directory, "console.log")):
            files = Files(run.directory, None, STREAMS, lines, terminal)
            open_.callback(files.close)
        told: Any = None
        if files is None:
            told = connection.ask("log", lines=lines, follow=True)
        if told is not None and not told["seen"]:
            _say(f"the output of {run.id} goes straight to its own terminal")
        live = Live(None, STREAMS, terminal=terminal)
        open_.callback(live.close)
        last: dict[str, Any] = {}
        with _interrupts() as interrupted, _viewed(run, terminal, last) as view:
            if files is not None:
                files.follow()
            if not _watch(run, connection, live, interrupted, view, last):
                return 0
            if view is not None:
                view.remember()
    return _tell_end(run, connection.end, console=files is not None)


def _watch(
    run: Run,
    connection: Connection,
    live: Live,
    interrupted: _Interrupts,
    view: View | None,
    last: dict[str, Any],
) -> bool:
    """Show what comes until the run has ended; False if the user detaches.

    last: what the view shows of a run that cannot be asked any more.
    """
    while True:
        for said in connection.events(0):
            live.take(said)
            if said.get("event") == "over":
                last.update(said.get("look") or {})
            if interrupted.came:
                break
        if connection.end is not None or connection.closed:
            return True
        if not interrupted.came:
            select.select([connection, interrupted.fd], [], [])
        if interrupted.taken():
            if view is not None:
                view.hide()
            choice = ask()
            if choice == "s":
                connection.send("stop")
                _say("stopping the run")
            elif choice == "d":
                _say(f"{run.id} goes on; see procession attach")
                return False
            if view is not None:
                view.unhide()


def _say(text: str) -> None:
    say(f"procession: {text}\n", sys.stderr)


def _tell_end(run: Run, end: dict[str, Any] | None, *, console: bool) -> int:
    """Say how it ended. console: the console has shown the report of a failure already."""
    if end is None:
        result = read_json(os.path.join(run.directory, "result.json")) if run.directory else None
        if result is None:
            _say(f"the launcher of {run.id} was killed [P313]")
            return 1
        end = {"state": result["state"], "code": result["exit_code"], "report": report_in(run)}
    if not console or end["state"] == "SUCCEEDED":
        say(end["report"].rstrip("\n") + "\n", sys.stderr)
    return int(end["code"])


@contextlib.contextmanager
def _viewed(run: Run, terminal: Console | None, last: dict[str, Any]) -> Generator[View | None]:
    """Show the live view of a run on a terminal, if there is one that can show it.

    last: keeps what was seen last.
    """
    if terminal is None:
        yield None
        return

    def look() -> dict[str, Any]:
        with contextlib.suppress(NotAnswered), connect(run) as connection:
            last.update(connection.ask("look"))
        return last  # of a run that has ended, the last that was seen

    look()
    with viewing(look, terminal, _say) as view:
        yield view


class _Interrupts:
    """Keeps a Ctrl-C until the loop takes it. fd: becomes readable when it comes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.came = False

    def note(self, *_: object) -> None:
        self.came = True

    def taken(self) -> bool:
        came, self.came = self.came, False
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)
        return came


@contextlib.contextmanager
def _interrupts() -> Generator[_Interrupts]:
    with readable_by_signals() as fd:
        found = _Interrupts(fd)
        with handled({signal.SIGINT: found.note}):
            yield found


def ask() -> str:
    """Ask what Ctrl-C is to do: d, s or c; without a terminal for the answer, d."""
    import termios
    import tty

    try:
        before = termios.tcgetattr(0)
    except (OSError, termios.error):
        return "d"
    # The terminal is set up before the question, so that an immediate answer is not lost.
    taken = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tty.setcbreak(0, termios.TCSADRAIN)
        say(QUESTION, sys.stderr)
        while True:
            key = os.read(0, 1).decode(errors="replace").lower()
            if key in ("d", "s", "c", ""):
                break
    except KeyboardInterrupt:
        key = "d"
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGINT, taken)
    say("\n", sys.stderr)
    return key or "d"
