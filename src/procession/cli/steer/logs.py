"""`procession logs`: show what the ranks of a run have written, and what they write."""

from __future__ import annotations

import os
import sys
import time

from procession.cli import readers
from procession.cli.say import say
from procession.cli.steer.finding import failed, parser_of, read_run
from procession.cli.steer.showing import STREAMS, Files, Live
from procession.cli.words import Option
from procession.control.ask import NotAnswered
from procession.control.runs import Run, connect
from procession.system.identity import start_of

LOOK_EVERY = 0.5  # seconds, for files of a new attempt
ALL = 1 << 30  # lines
EPILOG = """\
The files of the run are read if it has some (--log-dir with -r or -t, or --detach); of a run
without files, what its console has shown last comes over its socket, as far as it passes the
launcher: a single rank without a prefix writes straight to the terminal.

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
            read=readers.NUMBER),
        Option(("--stdout",), "", "only the standard output"),
        Option(("--stderr",), "", "only the standard error"),
        Option(("-n", "--lines"), "LINES", "begin with the last lines (default: all)",
            read=readers.NUMBER),
        Option(("-f", "--follow"), "", "go on with what comes, until the run ends"),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Show the output; returns the exit code."""
    options, run = read_run(PARSER, words)
    rank, lines = options.rank, options.lines
    streams = [s for s in STREAMS if getattr(options, s)] or STREAMS
    files = Files(run.directory, rank, streams, lines) if run.directory else None
    if files is not None and files.there:
        if options.follow and run.runs:
            _follow(run, files)
        else:
            files.show()
        files.close()
        return 0
    if not run.socket:
        where = f"in {run.directory} on this machine" if run.directory else "of it"
        of_rank = "" if rank is None else f"of rank {rank} "
        why = f"there are no files {of_rank}{where}: -t 3 or -r 3 keeps them, with --log-dir"
        console = os.path.join(run.directory, "console.log") if run.directory else ""
        if console and os.path.exists(console):
            why = (
                f"{run.id} has no files by rank: all of its output is in {console}, which is shown "
                "without --rank, --stdout and --stderr"
            )
        return failed("logs", why)
    try:
        return _live(run, rank, streams, lines, options.follow)
    except NotAnswered as e:
        return failed("logs", str(e))


def _follow(run: Run, files: Files) -> None:
    """Show the files until the run has ended."""
    files.follow()
    if not run.socket:
        began = start_of(run.launcher)
        while began and start_of(run.launcher) == began:
            time.sleep(LOOK_EVERY)
            files.follow()
        return
    try:
        with connect(run) as connection:
            while connection.end is None and not connection.closed:
                for _ in connection.events(LOOK_EVERY):
                    pass
                files.follow()
    except NotAnswered:
        pass  # it has just ended


def _live(
    run: Run, rank: int | None, streams: list[str] | tuple[str, ...],
    lines: int | None, follow: bool,
) -> int:  # fmt: skip
    with connect(run) as connection:
        told = connection.ask("log", lines=ALL if lines is None else lines, follow=follow)
        if not told["seen"]:
            raise NotAnswered(
                f"the output of {run.id} goes straight to its own terminal: start it with "
                "--detach, or with --log-dir and -t 3"
            )
        if rank is not None and rank >= len(told["prefixes"]):
            PARSER.error(f"there is no rank {rank} in {run.id}")
        if rank is not None and not told["prefixes"][rank]:
            PARSER.error(
                f"{run.id} keeps no files, and its lines do not say of which rank they are"
            )
        say(f"procession: {run.id} keeps no files: this is what it shows now\n", sys.stderr)
        live = Live(rank, streams, told["prefixes"])
        for said in connection.events():
            if said.get("event") == "log_end":
                break
            live.take(said)
        live.close()
    return 0
