"""Output of ranks on this terminal: out of the files of a run, or over its socket."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from procession.control.runs import read_json
from procession.output.console import Console
from procession.output.escape import uncoloured
from procession.output.feed import Source
from procession.output.follow import Follower
from procession.output.rankfiles import open_regular
from procession.values.base import Value

STREAMS = ("stdout", "stderr")
FOR_EVER = 1e6  # seconds
_BLOCK = 64 << 10


class Files:
    """The log files of a run, shown as they grow. rank: only of this one, None: of all.

    terminal: where all is shown, the caller's; None: on our own standard streams.
    """

    def __init__(
        self,
        directory: str,
        rank: int | None,
        streams: Sequence[str],
        lines: int | None,
        terminal: Console | None = None,
    ) -> None:
        self._directory = directory
        self._rank = rank
        self._streams = streams
        self._lines = lines
        self._seen: set[str] = set()
        self._nodes: dict[int, int | None] = {}  # of ranks, in a job over nodes
        self._consoles, self._own = _consoles(terminal)
        self._follower = Follower(*self._consoles)
        self._console = ""
        if rank is None and tuple(streams) == STREAMS:
            path = os.path.join(directory, "console.log")
            self._console = path if os.path.exists(path) else ""

    @property
    def there(self) -> bool:
        """Whether there is any such file."""
        return bool(self._console or self._files(self._last_attempt()))

    def _last_attempt(self) -> int:
        every = [number for part in self._parts for number in attempts(part.directory)]
        return max(every, default=0)

    @property
    def _parts(self) -> list[Part]:
        return parts_of(self._directory)

    def _files(self, attempt: int) -> list[tuple[int, str, str]]:
        """Give (rank, stream, path) of an attempt's files."""
        every: list[tuple[int, str, str]] = []
        for part in self._parts:
            top = os.path.join(part.directory, f"attempt_{attempt}")
            for local in _numbers(top, ""):
                rank = part.first + local
                if self._rank not in (None, rank):
                    continue
                self._nodes[rank] = part.node
                every += [
                    (rank, s, os.path.join(top, str(local), f"{s}.log")) for s in self._streams
                ]
        return [each for each in every if os.path.isfile(each[2])]

    def show(self) -> None:
        """Show what there is, rank by rank."""
        for each in self._wanted():
            self._add(*each)
            self._follower.drain(FOR_EVER)
            self._follower = Follower(*self._consoles)

    def follow(self) -> None:
        """Show what there is, and from now on what comes; to be called again, for new files."""
        for each in self._wanted():
            if each[2] not in self._seen:
                self._add(*each)

    def _wanted(self) -> list[tuple[int, str, str]]:
        if self._console:
            return [(-1, "stdout", self._console)]
        return self._files(self._last_attempt())

    def _add(self, rank: int, stream: str, path: str) -> None:
        # What a new attempt writes is new from its first line on.
        old = "" if self._console else os.path.dirname(os.path.dirname(path))
        is_new = any(os.path.dirname(os.path.dirname(seen)) != old for seen in self._seen)
        lines = None if is_new and not self._console else self._lines
        self._seen.add(path)
        several = self._rank is None and not self._console
        source = Source(
            rank=rank,
            stream="out" if stream == "stdout" else "err",
            prefix=f"[{self._name(rank)}] ".encode() if several else b"",
            colour=rank if several else None,
        )
        self._follower.add_file(path, source, 0 if lines is None else last_lines_at(path, lines))

    def _name(self, rank: int) -> str:
        node = self._nodes.get(rank)
        return str(rank) if node is None else f"{node}:{rank}"

    def close(self) -> None:
        """Show what is still to be shown, and let go."""
        self._follower.drain(FOR_EVER)
        for console in self._own:
            console.close()


def _consoles(terminal: Console | None) -> tuple[tuple[Console, Console], tuple[Console, ...]]:
    """Give where both streams are shown, and which of that is to be closed in the end."""
    if terminal is not None:
        return (terminal, terminal), ()
    own = Console(sys.stdout), Console(sys.stderr)
    return own, own


class Part(Value):
    """Where the files of some ranks are. node: of a job over nodes, else None.

    first: the number in the job of the rank whose directory is called 0.
    """

    directory: str
    node: int | None
    first: int


def parts_of(directory: str) -> list[Part]:
    """Give the parts of a run: itself, or the nodes of a job whose files can be seen from here."""
    nodes = _numbers(directory, "node_")
    if not nodes:
        return [Part(directory, None, 0)]
    asked = read_json(os.path.join(directory, "run.json")) or {}
    nproc = int(asked.get("nproc") or 1)
    return [Part(os.path.join(directory, f"node_{n}"), n, n * nproc) for n in nodes]


def attempts(directory: str) -> list[int]:
    """Give the numbers of the attempts that have files."""
    return _numbers(directory, "attempt_")


def _numbers(directory: str, before: str) -> list[int]:
    """Give the numbers that names in a directory have after `before`, in order."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    numbers = [name.removeprefix(before) for name in names if name.startswith(before)]
    return sorted(int(number) for number in numbers if number.isdecimal())


def last_lines_at(path: str, lines: int) -> int:
    """Tell where the last lines of a file begin."""
    try:
        with open_regular(path) as f:
            at = f.seek(0, os.SEEK_END)
            wanted = lines
            behind = at
            while at > 0:
                start = max(0, at - _BLOCK)
                f.seek(start)
                block = f.read(at - start)
                end = len(block)
                while (found := block.rfind(b"\n", 0, end)) >= 0:
                    if start + found + 1 < behind:  # not the newline at the very end
                        wanted -= 1
                        if wanted <= 0:
                            return start + found + 1
                    elif not lines:
                        return behind
                    end = found
                at = start
    except OSError:
        pass  # it is gone, which is said when it is opened
    return 0


class Live:
    """What comes over a socket. prefixes: what stands before the lines of each rank.

    terminal: where all is shown, the caller's; None: on our own standard streams.
    """

    def __init__(
        self,
        rank: int | None,
        streams: Sequence[str],
        prefixes: Sequence[str] = (),
        terminal: Console | None = None,
    ) -> None:
        self._consoles, self._own = _consoles(terminal)
        self._streams = {"stdout": "out", "stderr": "err"}
        self._wanted = {self._streams[stream] for stream in streams}
        self._prefix = None if rank is None else prefixes[rank].encode()
        self._rest = {"out": b"", "err": b""}

    def take(self, said: Mapping[str, Any]) -> None:
        """Show an event, if it is one to be shown."""
        if said.get("event") == "left_out":
            count = said["lines"]
            text = b"[... %d %s left out]\n" % (count, b"line" if count == 1 else b"lines")
            self._consoles[1].write(text)
        if said.get("event") != "log" or said.get("stream") not in self._wanted:
            return
        stream = str(said["stream"])
        console = self._consoles[stream == "err"]
        data = str(said["text"]).encode(errors="surrogateescape")
        if not console.colour:
            data = uncoloured(data)
        console.write(data if self._prefix is None else self._chosen(stream, data))

    def _chosen(self, stream: str, data: bytes) -> bytes:
        *lines, self._rest[stream] = (self._rest[stream] + data).split(b"\n")
        prefix = self._prefix or b""
        return b"".join(b"%s\n" % x for x in lines if uncoloured(x).startswith(prefix))

    def close(self) -> None:
        """Let go of the terminal."""
        for console in self._own:
            console.close()
