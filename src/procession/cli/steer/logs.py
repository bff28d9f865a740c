"""`procession logs`: show what the ranks of a run have written, and what they write."""

from __future__ import annotations

import os
from contextlib import suppress

from procession.cli import readers
from procession.cli.commands import parser_of
from procession.cli.say import say_note
from procession.cli.steer.finding import read_run
from procession.cli.steer.showing import (
    CONSOLE,
    LOOK_EVERY,
    STREAMS,
    Consoles,
    Files,
    Live,
    Streams,
    consoles,
)
from procession.cli.words import Option
from procession.control.ask import NotAnswered
from procession.control.runs import Run, connect

ALL = 1 << 30  # lines
EPILOG = """\
The files of the run are read if it has some (--log-dir with -r or -t, or --detach); of a run
without files, what its console has shown last comes over its socket, as far as it passes the
launcher: a single rank without a prefix writes straight to the terminal. --rank needs files of each
rank: -t 3 or -r 3.

exit codes: 0; 1 if there is no output to be had; 2 for a wrong command line, or where there is no
such run.

examples:
  procession logs last
  procession logs train.py --rank 3 --stderr -n 100 -f
"""
PARSER = parser_of(
    "logs", "RUN [--rank R] [-f] [--stdout | --stderr] [-n LINES]", EPILOG,
    (
        Option(("--rank",), "R", "only of this rank, by its number in the run",
            read=readers.count),
        Option(("--stdout",), "", "only the standard output"),
        Option(("--stderr",), "", "only the standard error"),
        Option(("-n", "--lines"), "LINES", "begin with the last lines (default: all)",
            read=readers.count),
        Option(("-f", "--follow"), "", "go on with what comes, until the run ends"),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Show the output; returns the exit code."""
    options, run = read_run(PARSER, words)
    rank, lines, follow = options.get("rank"), options.get("lines"), "follow" in options
    streams: Streams = [s for s in STREAMS if options.get(f"std{s}")] or STREAMS
    with consoles() as shown_on:
        files = Files(run.directory, rank, streams, lines, shown_on)
        if run.directory and files.there:
            _show(run, files, follow=follow)
            return 0
        if not run.socket or rank is not None:
            raise NotAnswered(_no_files(run, rank))
        return _live(run, streams, ALL if lines is None else lines, follow, shown_on)


def _no_files(run: Run, rank: int | None) -> str:
    console = os.path.join(run.directory, CONSOLE)
    if run.directory and os.path.exists(console):
        return (
            f"{run.id} has no files by rank: all of its output is in {console}, which is shown "
            "without --rank, --stdout and --stderr; -t 3 or -r 3 keeps files of each rank"
        )
    where = f"in {run.directory} on this machine" if run.directory else "of it"
    of_rank = "" if rank is None else f"of rank {rank} "
    return f"there are no files {of_rank}{where}: -t 3 or -r 3 keeps them, with --log-dir"


def _show(run: Run, files: Files, *, follow: bool) -> None:
    """Show the files; with `follow` until the run has ended."""
    if not (follow and run.socket):
        files.show()
        return
    files.follow()
    with suppress(NotAnswered), connect(run) as connection:
        while connection.end is None and not (connection.closed or files.unread):
            for _ in connection.events(LOOK_EVERY):
                pass
            files.follow()
    files.close()


def _live(run: Run, streams: Streams, lines: int, follow: bool, shown_on: Consoles) -> int:
    with connect(run) as connection:
        if not connection.ask("log", lines=lines, follow=follow)["seen"]:
            raise NotAnswered(
                f"the output of {run.id} goes straight to its own terminal: start it with "
                "--detach, or with --log-dir and -t 3"
            )
        say_note(f"{run.id} keeps no files: this is what it shows now")
        live = Live(streams, shown_on)
        for said in connection.events():
            if said.get("event") == "log_end":
                break
            live.take(said)
            if live.unread:
                break
    return 0
