"""Copies of what is teed: the lines that hold one of some texts, of all ranks, in one file.

    attempt_<k>/filtered_stdout.log, filtered_stderr.log    beside the directories of the ranks

The copies follow the log files by themselves, so that a console that does not read holds up none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from procession.output.console import Console
from procession.output.feed import Source
from procession.output.follow import Follower
from procession.output.rundir import LOG_FLAGS

Place = Callable[[int, str], str]  # from attempt and stream to the path of a copy


class Duplicates:
    """The copies of one group. texts: by stream, "stdout" and "stderr". place: where they lie."""

    def __init__(self, texts: dict[str, Sequence[str]], place: Place) -> None:
        self._texts = {s: tuple(t.encode() for t in each) for s, each in texts.items() if each}
        self._place = place
        self._followers: dict[tuple[int, str], tuple[Follower, Console]] = {}

    def follow(self, attempt: int, stream: str, path: str, source: Source) -> None:
        """Copy from the log file of one rank's stream. OSError if a file cannot be opened."""
        texts = self._texts.get(stream)
        if texts is None:
            return
        if (attempt, stream) not in self._followers:
            fd = os.open(self._place(attempt, stream), LOG_FLAGS, 0o600)
            with os.fdopen(fd, "w", errors="surrogateescape") as copy:
                console = Console(copy)  # which keeps a descriptor of its own
            self._followers[attempt, stream] = Follower(console, console), console
        follower, _ = self._followers[attempt, stream]

        def keep(line: bytes) -> bool:
            return any(text in line for text in texts)

        follower.add_file(path, Source(source.rank, source.stream, source.prefix, keep=keep))

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


__all__ = ["Duplicates"]
