"""Output of ranks on this terminal: out of the files of a run, or over its socket."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from typing import Any, Literal

from procession.cli import say
from procession.output.console import Console
from procession.output.feed import Source
from procession.output.follow import Follower
from procession.output.rankfiles import open_regular
from procession.output.text import uncoloured

STREAMS: tuple[Literal["out", "err"], ...] = ("out", "err")
CONSOLE = "console.log"  # of a detached run: all of its output
FOR_EVER = 1e6  # seconds
LOOK_EVERY = 0.5  # seconds: for files of a new attempt, and whether anybody reads

Consoles = tuple[Console, Console]
Streams = Sequence[Literal["out", "err"]]


@contextmanager
def consoles(terminal: Console | None = None) -> Generator[Consoles]:
    """Give where both streams are shown, while the block runs: a terminal, or our own streams."""
    both = (terminal, terminal) if terminal else (Console(sys.stdout), Console(sys.stderr))
    try:
        yield both
    finally:
        for console in {*both}:
            say.fault = say.fault or console.fault
            console.close()


class Files:
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

    @property
    def there(self) -> bool:
        """Whether there is any such file."""
        return bool(self._wanted())

    @property
    def unread(self) -> bool:
        """Whether the reader of our standard output has gone, as `head` does."""
        return self._shown_on[0].quiet

    def show(self) -> None:
        """Show what there is, rank by rank."""
        for path, source in self._wanted().items():
            self._add(path, source, self._lines)
            self._follower.drain(FOR_EVER)
            self._follower = Follower(*self._shown_on)

    def follow(self) -> None:
        """Show what there is, and from now on what comes; to be called again, for new files."""
        lines = None if self._seen else self._lines  # what is new is new from its first line on
        for path, source in self._wanted().items():
            if path not in self._seen:
                self._add(path, source, lines)

    def _wanted(self) -> dict[str, Source]:
        """Give the console of a detached run, or the files of the last attempt, by their paths."""
        console = os.path.join(self._directory, CONSOLE)
        if self._rank is None and len(self._streams) > 1 and os.path.exists(console):
            return {console: Source(-1, "out")}
        nodes = _numbers(self._directory, "node_")  # of a job, as far as seen from here
        tops = {n: os.path.join(self._directory, f"node_{n}") for n in nodes}
        tops = tops or {0: self._directory}
        attempt = max((n for top in tops.values() for n in _numbers(top, "attempt_")), default=0)
        if nodes and attempt not in self._sizes:
            self._sizes = _sizes(os.path.join(self._directory, "events.jsonl"))
        sizes = self._sizes.get(attempt, [])
        found: dict[str, Source] = {}
        for n, top in tops.items():
            node, first = f"{n}:" if nodes else "", sum(sizes[:n])
            place = os.path.join(top, f"attempt_{attempt}")
            for local in _numbers(place, ""):
                rank, own = first + local, os.path.join(place, str(local))
                for stream in self._streams if self._rank in (None, rank) else ():
                    path, source = os.path.join(own, f"std{stream}.log"), Source(rank, stream)
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


class Live:
    """What comes over a socket."""

    def __init__(self, streams: Streams, shown_on: Consoles) -> None:
        self._consoles = dict(zip(STREAMS, shown_on, strict=True))
        self._wanted = streams

    @property
    def unread(self) -> bool:
        """Whether the reader of our standard output has gone, as `head` does."""
        return self._consoles["out"].quiet

    def take(self, said: Mapping[str, Any]) -> None:
        """Show an event, if it is one to be shown."""
        if said.get("event") == "left_out":
            count = said["lines"]
            text = b"[... %d %s left out]\n" % (count, b"line" if count == 1 else b"lines")
            self._consoles["err"].write(text)
        if said.get("event") == "log" and said.get("stream") in self._wanted:
            console = self._consoles[said["stream"]]
            data = str(said["text"]).encode(errors="surrogateescape")
            console.write(data if console.colour else uncoloured(data))
