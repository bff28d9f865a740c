"""When ranks last wrote something, as far as it passes through us or lies in files."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from procession.output.wiring import Wiring


class Activity:
    """Looks when ranks last wrote."""

    def __init__(self, streams: Wiring) -> None:
        self._streams = streams
        self._looked = time.monotonic_ns()
        self._files: dict[str, tuple[tuple[int, int], int]] = {}  # size and time, and when

    def look(self, now: int, attempts: Sequence[int]) -> dict[int, int]:
        """Give, by rank, when it last wrote, in nanoseconds of the monotonic clock; 0: never.

        now: the time. attempts: by rank, which one its files are of.
        """
        wall = time.time_ns()
        found: dict[int, int] = {}
        for rank, attempt in enumerate(attempts):
            paths = self._streams.log_paths(attempt, rank)
            files = [self._of_file(path, now, wall) for path in paths if path]
            found[rank] = max((self._streams.last_read(rank), *files))
        self._looked = now
        return found

    def _of_file(self, path: str, now: int, wall: int) -> int:
        """Say when a file was written to.

        Its own clock may be set back and forth: that it changed since the last look counts.
        """
        try:
            found = os.stat(path)
        except OSError:
            return 0
        mark = found.st_size, found.st_mtime_ns
        before, at = self._files.get(path, ((0, 0), 0))
        if mark != before:
            at = min(now, max(self._looked, now - (wall - found.st_mtime_ns))) if mark[0] else 0
            self._files[path] = mark, at
        return at


__all__ = ["Activity"]
