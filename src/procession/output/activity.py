"""When ranks last wrote something, as far as we read it or files have it."""

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
        # Of each file of a rank's present life: its path, size and time, and when it changed.
        self._files: dict[tuple[int, int], tuple[str, tuple[int, int], int]] = {}

    def look(self, now: int, attempts: Sequence[int]) -> dict[int, int]:
        """Give, by rank, when it last wrote, in nanoseconds of the monotonic clock; 0: never.

        now: the time. attempts: by rank, which one its files are of.
        """
        wall = time.time_ns()
        found: dict[int, int] = {}
        for rank, attempt in enumerate(attempts):
            paths = self._streams.log_paths(attempt, rank)
            files = [
                self._of_file((rank, n), path, now, wall) for n, path in enumerate(paths) if path
            ]
            found[rank] = max((self._streams.last_read(rank), *files))
        self._looked = now
        return found

    def _of_file(self, key: tuple[int, int], path: str, now: int, wall: int) -> int:
        """Say when a file was written to; key: its rank, and which of its files it is.

        The file system's clock may be set: what counts is that it has changed since the last look.
        """
        try:
            found = os.stat(path)
        except OSError:
            return 0
        mark = found.st_size, found.st_mtime_ns
        known, before, at = self._files.get(key, (path, (0, 0), 0))
        if known != path:
            before, at = (0, 0), 0
        if known != path or mark != before:
            at = min(now, max(self._looked, now - (wall - found.st_mtime_ns))) if mark[0] else 0
            self._files[key] = path, mark, at
        return at
