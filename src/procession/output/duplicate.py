"""Copies of teed lines: those of all ranks that hold one of some texts, in one file.

    attempt_<k>/filtered_stdout.log, filtered_stderr.log    beside the directories of the ranks

The copies follow the log files by themselves, so that a console that does not read delays none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from procession.output.console import Console
from procession.output.feed import Source
from procession.output.follow import Follower
from procession.output.rundir import LOG_FLAGS

PathOf = Callable[[int, str], str]  # from attempt and stream to the path of a copy


class Duplicates:
    """The copies of one group. texts: by stream, "stdout" and "stderr". path_of: their paths."""

    def __init__(self, texts: dict[str, Sequence[str]], path_of: PathOf) -> None:
        self._texts = {s: tuple(t.encode() for t in each) for s, each in texts.items() if each}
        self._path_of = path_of
        self._followers: dict[tuple[int, str], tuple[Follower, Console]] = {}
        self._ranks: dict[tuple[int, str], set[int]] = {}  # that are followed

    def follow(self, attempt: int, stream: str, path: str, source: Source) -> None:
        """Copy from the log file of one rank's stream. OSError if a file cannot be opened."""
        texts = self._texts.get(stream)
        if texts is None:
            return
        self._leave(attempt, stream, source.rank)
        self._ranks.setdefault((attempt, stream), set()).add(source.rank)
        if (attempt, stream) not in self._followers:
            fd = os.open(self._path_of(attempt, stream), LOG_FLAGS, 0o600)
            with os.fdopen(fd, "w", errors="surrogateescape") as copy:
                console = Console(copy)  # which keeps a descriptor of its own
            self._followers[attempt, stream] = Follower(console, console), console
        follower, _ = self._followers[attempt, stream]

        def keep(line: bytes) -> bool:
            return any(text in line for text in texts)

        follower.add_file(path, Source(source.rank, source.stream, source.prefix, keep=keep))

    def _leave(self, attempt: int, stream: str, rank: int) -> None:
        """Close copies of earlier lives that have no rank any more, since this one starts again."""
        for key in [k for k in self._ranks if k[1] == stream and k[0] != attempt]:
            self._ranks[key].discard(rank)
            if not self._ranks[key]:
                del self._ranks[key]
                follower, console = self._followers.pop(key)
                follower.close()
                console.close()

    def drain(self, timeout: float) -> None:
        """Copy what was written until now."""
        for follower, _ in self._followers.values():
            follower.drain(timeout)

    def close(self) -> None:
        """Copy what is left, and close everything."""
        for follower, console in self._followers.values():
            follower.close()
            console.close()
        self._followers.clear()
        self._ranks.clear()
