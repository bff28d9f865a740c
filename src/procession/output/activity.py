"""When ranks last wrote something, as far as we read it or files have it.

Theory of operation. A file that differs from the last look was written to since that look, and
counts as written just now. Its own time is not believed: the time of day may be set while a run
goes on, and on a network file system it is another machine's. So what writes is never taken for
silent, and a silence is noticed at most one look later than it could be.

Rejected: to ask the file system what time it is, by touching something. That waits for ever where a
file system is frozen or its disk does not answer, and those are hangs that have to be noticed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from procession.output.wiring import Wiring

NEVER = (0, 0, 0)  # size and times of a file that was not seen yet


class Activity:
    """Looks when ranks last wrote."""

    def __init__(self, streams: Wiring) -> None:
        self._streams = streams
        # Of each file: its size and times, and when it changed.
        self._files: dict[str, tuple[tuple[int, int, int], int]] = {}

    def last_written(self, now: int, attempts: Sequence[int]) -> dict[int, int]:
        """Give, by rank, when it last wrote, in nanoseconds of the monotonic clock; 0: never.

        now: the time. attempts: by rank, which one its files are of.
        """
        found: dict[int, int] = {}
        for rank, attempt in enumerate(attempts):
            paths = filter(None, self._streams.files.log_files(attempt, rank))
            files = [self._written(path, now) for path in paths]
            read = [tail.fed_at for tail in self._streams.read_of(rank)]
            found[rank] = max((0, *read, *files))
        return found

    def _written(self, path: str, now: int) -> int:
        """Say when a file was written to."""
        before, at = self._files.get(path, (NEVER, 0))
        try:
            found = os.stat(path)
        except OSError:
            return at  # somebody has taken it away
        # The time of the last change of all cannot be set by anybody, as the other one can.
        mark = found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if mark != before:
            # An empty file is a new one, or one that was made empty.
            if found.st_size or before[0] or at:
                at = now
            self._files[path] = mark, at
        return at
