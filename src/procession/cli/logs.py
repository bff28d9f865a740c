"""`procession logs`: what the ranks of a run have written, and write."""

from __future__ import annotations

import sys
import time

from procession.cli.parser import Parser
from procession.cli.say import say
from procession.cli.showing import STREAMS, Files, Live
from procession.cli.steering import parser_of, read_run
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


def make_parser() -> Parser:
    """Make the parser."""
    parser = parser_of("logs", "RUN [--rank R] [-f] [--stdout | --stderr] [-n LINES]", EPILOG)
    add = parser.add_argument
    add("--rank", metavar="R", help="only of this rank, by its number on this machine")
    add("--stdout", action="store_true", help="only the standard output")
    add("--stderr", action="store_true", help="only the standard error")
    add("-n", "--lines", metavar="LINES", help="begin with the last lines (default: all)")
    add("-f", "--follow", action="store_true", help="go on with what comes, until the run ends")
    return parser


def main(words: list[str]) -> int:
    """Show the output; returns the exit code."""
    parser = make_parser()
    options, run = read_run(parser, words)
    rank = _number(parser, options.rank, "--rank")
    lines = _number(parser, options.lines, "-n")
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
        where = f"in {run.directory}" if run.directory else "of it"
        say(f"procession logs: error: there are no files {where}\n", sys.stderr)
        return 1
    try:
        return _live(parser, run, rank, streams, lines, options.follow)
    except NotAnswered as e:
        say(f"procession logs: error: {e}\n", sys.stderr)
        return 1


def _number(parser: Parser, text: str | None, option: str) -> int | None:
    if text is not None and not (text.isascii() and text.isdecimal()):
        parser.error(f"{option} must be a number, not {text!r}")
    return None if text is None else int(text)


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
    parser: Parser, run: Run, rank: int | None, streams: list[str] | tuple[str, ...],
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
            parser.error(f"there is no rank {rank} in {run.id}")
        if rank is not None and not told["prefixes"][rank]:
            parser.error(
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


__all__ = ["main", "make_parser"]
