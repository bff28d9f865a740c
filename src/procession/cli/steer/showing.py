"""`procession logs` and `procession attach`: output of ranks on this terminal.

It comes out of the files of a run, or over its socket.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from mmap import ACCESS_READ, mmap
from typing import Any, Literal

from procession.cli import readers, say
from procession.cli.commands import parser_of
from procession.cli.say import say_line, say_note
from procession.cli.steer.looking import report_in
from procession.cli.words import Option
from procession.control.ask import Connection, NotAnswered
from procession.control.runs import Run, connect, read_json
from procession.output.console import Console
from procession.output.feed import Source
from procession.output.follow import Follower
from procession.output.rankfiles import open_regular
from procession.output.text import uncoloured

STREAMS: tuple[Literal["out", "err"], ...] = ("out", "err")
CONSOLE = "console.log"  # of a detached run: all of its output
FOR_EVER = 1e6  # seconds
LOOK_EVERY = 0.5  # seconds: for files of a new attempt, and whether anybody reads
ALL = 1 << 30  # lines
LINES = 20
LOGS = """\
The command reads the files of the run (--log-dir with -r or -t, or --detach). Without files, it
prints the last lines of the console. A single rank without a prefix writes to its terminal
directly, and these lines are not available. --rank needs files of each rank: -t 3 or -r 3.

exit codes: 0; 1 if there is no output; 2 for a wrong command line or an unknown run.

examples:
  procession logs last
  procession logs train.py --rank 3 --stderr -n 100 -f
"""
ATTACH = """\
The command prints the last lines of the console, new lines until the run ends, and the report.
Ctrl-C ends this command only: the run continues.

exit codes: that of the run; 0 after Ctrl-C; 1 if the launcher of the run was killed or does not
answer; 2 for a wrong command line or an unknown run.
"""
PARSERS = {
    "logs": parser_of(
        "logs", "RUN [--rank R] [-f] [--stdout | --stderr] [-n LINES]", LOGS,
        (
            Option(("--rank",), "R", "print only this rank, by its number in the run",
                read=readers.count),
            Option(("--stdout",), "", "print only stdout"),
            Option(("--stderr",), "", "print only stderr"),
            Option(("-n", "--lines"), "LINES", "print only the last LINES (default: all)",
                read=readers.count),
            Option(("-f", "--follow"), "", "print new lines until the run ends"),
        ),
    ),
    "attach": parser_of(
        "attach", "RUN [-n LINES]", ATTACH,
        (Option(("-n", "--lines"), "LINES", f"start with the last LINES (default: {LINES})",
            read=readers.count),),
    ),
}  # fmt: skip

Consoles = tuple[Console, Console]
Streams = Sequence[Literal["out", "err"]]


def logs(options: dict[str, Any], run: Run) -> int:
    """Show the output; returns the exit code."""
    rank, lines, follow = options.get("rank"), options.get("lines"), "follow" in options
    streams: Streams = [s for s in STREAMS if options.get(f"std{s}")] or STREAMS
    with consoles() as shown_on:
        files = FollowedFiles(run.directory, rank, streams, lines, shown_on)
        if run.directory and files.wanted():
            if not (follow and run.socket):
                files.show()
                return 0
            files.follow()
            with suppress(NotAnswered), connect(run) as connection:
                show_events(connection, streams, shown_on, files)
            files.close()
            return 0
        if not run.socket or rank is not None:
            raise NotAnswered(_no_files(run, rank))
        with connect(run) as connection:
            last = ALL if lines is None else lines
            if not connection.ask("log", lines=last, follow=follow)["seen"]:
                raise NotAnswered(
                    f"the output of {run.id} goes straight to its own terminal: start it with "
                    "--detach, or with --log-dir and -t 3"
                )
            apart = (run.look or {}).get("engine") == "rendezvous"
            whose = "; each of its machines shows its own ranks" if apart else ""
            say_note(f"{run.id} keeps no files: this is what it shows now{whose}")
            show_events(connection, streams, shown_on)
    return 0


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


def attach(options: dict[str, Any], run: Run) -> int:
    """Attach to a run; returns the exit code."""
    if not run.socket and run.runs:
        raise NotAnswered(
            f"{run.id} cannot be asked: a program of your own started it (pid {run.launcher})"
        )
    if not run.socket:
        return _tell_end(run, None, console=False)
    try:
        with connect(run) as connection:
            return _attach(run, connection, options.get("lines", LINES))
    except KeyboardInterrupt:
        say_note(f"{run.id} continues; stop with `procession stop {run.id}`")
        return 0


def _attach(run: Run, connection: Connection, lines: int) -> int:
    console = bool(run.directory) and os.path.exists(os.path.join(run.directory, CONSOLE))
    with (
        consoles() as shown_on,
        closing(FollowedFiles(run.directory, None, STREAMS, lines, shown_on)) as files,
    ):
        if not console and not connection.ask("log", lines=lines, follow=True)["seen"]:
            say_note(f"the output of {run.id} goes straight to its own terminal")
        if console:
            files.follow()
        if not show_events(connection, STREAMS, shown_on):
            return 0
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
def consoles() -> Generator[Consoles]:
    """Give where both streams are shown, while the block runs."""
    both = (Console(sys.stdout), Console(sys.stderr))
    try:
        yield both
    finally:
        for console in both:
            say.fault = say.fault or console.fault
            console.close()


class FollowedFiles:
    """The log files of a run, shown as they grow. rank: only of this one, None: of all."""

    def __init__(
        self, directory: str, rank: int | None, streams: Streams, lines: int | None,
        shown_on: Consoles,
    ) -> None:  # fmt: skip
        self._directory = directory
        self._rank = rank
        self._streams = streams
        self._lines = lines
        self._seen: set[str] = set()
        self._sizes: dict[int, list[int]] = {}  # of a job: how many ranks each node has, by attempt
        self._shown_on = shown_on
        self._follower = Follower(*shown_on)

    def show(self) -> None:
        """Show what there is, rank by rank."""
        for path, source in self.wanted().items():
            self._add(path, source, self._lines)
            self._follower.drain(FOR_EVER)
            self._follower = Follower(*self._shown_on)

    def follow(self) -> None:
        """Show what there is, and from now on what comes; to be called again, for new files."""
        lines = None if self._seen else self._lines  # what is new is new from its first line on
        for path, source in self.wanted().items():
            if path not in self._seen:
                self._add(path, source, lines)

    def wanted(self) -> dict[str, Source]:
        """Give the console of a detached run, or the files of each rank's last attempt, by path."""
        console = os.path.join(self._directory, CONSOLE)
        if self._rank is None and len(self._streams) > 1 and os.path.exists(console):
            return {console: Source(-1, "out")}
        nodes = _numbers(self._directory, "node_")  # of a job, as far as seen from here
        tops = {n: os.path.join(self._directory, f"node_{n}") for n in nodes} or {
            0: self._directory
        }
        last = max((n for top in tops.values() for n in _numbers(top, "attempt_")), default=0)
        if nodes and last not in self._sizes:
            self._sizes = _sizes(os.path.join(self._directory, "events.jsonl"))
        # That of all ranks; single ones may have had later ones.
        attempt = max((n for n in self._sizes if n <= last), default=0)
        sizes = self._sizes.get(attempt, [])
        found: dict[str, Source] = {}
        for n, top in tops.items():
            node, first = f"{n}:" if nodes else "", sum(sizes[:n])
            own: dict[int, str] = {}
            for k in filter(attempt.__le__, _numbers(top, "attempt_")):
                place = os.path.join(top, f"attempt_{k}")
                own |= {local: os.path.join(place, str(local)) for local in _numbers(place, "")}
            for local, files in sorted(own.items()):
                rank = first + local
                for stream in self._streams if self._rank in (None, rank) else ():
                    path, source = os.path.join(files, f"std{stream}.log"), Source(rank, stream)
                    if self._rank is None:
                        prefix = f"[{node}{rank}] ".encode()
                        source = source.__replace__(prefix=prefix, colour=rank)
                    if os.path.isfile(path):
                        found[path] = source
        return found

    def _add(self, path: str, source: Source, lines: int | None) -> None:
        self._seen.add(path)
        at = 0 if lines is None else last_lines_at(path, lines)
        self._follower.add_file(path, source, at)

    def close(self) -> None:
        """Show what is still to be shown."""
        self._follower.drain(FOR_EVER)


def _numbers(directory: str, before: str) -> list[int]:
    """Give the numbers that names in a directory have after `before`, in order."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    numbers = [name.removeprefix(before) for name in names if name.startswith(before)]
    return sorted(int(number) for number in numbers if number.isdecimal())


def _sizes(path: str) -> dict[int, list[int]]:
    """Read from the events of a job how many ranks its nodes had in each attempt."""
    found: dict[int, list[int]] = {}
    with suppress(OSError), open_regular(path) as f:
        for line in f:
            if b'"sizes"' in line:
                with suppress(ValueError, KeyError, TypeError):
                    event = json.loads(line)
                    found[event["attempt"]] = event["sizes"]
    return found


def last_lines_at(path: str, lines: int) -> int:
    """Tell where the last lines of a file begin."""
    try:
        with open_regular(path) as f, mmap(f.fileno(), 0, access=ACCESS_READ) as text:
            at = len(text)
            if lines and text[-1:] == b"\n":
                at -= 1
            for _ in range(lines):
                at = text.rfind(b"\n", 0, at)
                if at < 0:
                    return 0
            return at + 1 if lines else at
    except (OSError, ValueError):
        return 0  # it is gone, which is said when it is opened; or it is empty


def show_events(
    connection: Connection, streams: Streams, shown_on: Consoles, files: FollowedFiles | None = None
) -> bool:
    """Show what comes over a socket until that is all, or the run has ended.

    files: to be shown as they grow, too. Gives False if the reader of our standard output has gone,
    as `head` does.
    """
    while not connection.closed and connection.end is None and not shown_on[0].quiet:
        for said in connection.events(LOOK_EVERY):
            if said.get("event") == "log_end":
                return True
            _show(said, streams, dict(zip(STREAMS, shown_on, strict=True)))
        if files is not None:
            files.follow()
    return not shown_on[0].quiet


def _show(said: Mapping[str, Any], streams: Streams, shown_on: Mapping[str, Console]) -> None:
    if said.get("event") == "left_out":
        count = said["lines"]
        text = b"[... %d %s left out]\n" % (count, b"line" if count == 1 else b"lines")
        shown_on["err"].write(text)
    if said.get("event") == "log" and said.get("stream") in streams:
        console = shown_on[said["stream"]]
        data = str(said["text"]).encode(errors="surrogateescape")
        console.write(data if console.colour else uncoloured(data))
