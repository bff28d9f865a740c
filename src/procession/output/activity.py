"""When ranks last wrote something, as far as we read it or files have it.

Theory of operation. The times of files are by the time of day, which may be set while a run goes
on, and on a network file system they are another machine's. So they are believed only as far as
they agree with what is known without them: a file that differs from the last look was written to
since that look. Where the time of day was set since, or a file's time says something else, the file
counts as written just now. A hang may be noticed one look later then, but what writes is not taken
for silent. Where another machine's clock differs by less than a look, the silence is wrong by so
much.

Rejected: to ask the file system what time it is, by touching something. That waits for ever where a
file system is frozen or its disk does not answer, and those are hangs that have to be noticed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from procession.output.wiring import Wiring

SECOND = 1_000_000_000  # nanoseconds, as all times here
STEADY = SECOND // 20  # by which two readings of a clock that nobody sets may differ
NEVER = (0, 0, 0)  # size and times of a file that was not seen yet
TICK = SECOND // 100  # by which a kernel's time of a file may be too early


class Activity:
    """Looks when ranks last wrote."""

    def __init__(self, streams: Wiring) -> None:
        self._streams = streams
        self._looked = time.monotonic_ns()
        self._ahead = time.time_ns() - self._looked  # of the monotonic clock, at the last look
        self._steady = True  # nobody has set the time of day since the look before
        # Of each file of a rank's present life: its path, size and times, and when it changed.
        self._files: dict[tuple[int, int], tuple[str, tuple[int, int, int], int]] = {}

    def look(self, now: int, attempts: Sequence[int]) -> dict[int, int]:
        """Give, by rank, when it last wrote, in nanoseconds of the monotonic clock; 0: never.

        now: the time. attempts: by rank, which one its files are of.
        """
        ahead = time.time_ns() - time.monotonic_ns()
        self._steady = abs(ahead - self._ahead) < STEADY
        self._ahead = ahead
        found: dict[int, int] = {}
        for rank, attempt in enumerate(attempts):
            paths = self._streams.log_paths(attempt, rank)
            files = [self._of_file((rank, n), path, now) for n, path in enumerate(paths) if path]
            found[rank] = max((self._streams.last_read(rank), *files))
        self._looked = now
        return found

    def _of_file(self, key: tuple[int, int], path: str, now: int) -> int:
        """Say when a file was written to; key: its rank, and which of its files it is."""
        known, before, at = self._files.get(key, (path, NEVER, 0))
        if known != path:
            before, at = NEVER, 0
        try:
            found = os.stat(path)
        except OSError:
            return at  # somebody has taken it away
        # The time of the last change of all cannot be set by anybody, as the other one can.
        mark = found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if mark != before:
            # An empty file is a new one, or one that was made empty.
            if found.st_size or before[0] or at:
                at = self._by_time(found.st_mtime_ns, now)
            self._files[key] = path, mark, at
        return at

    def _by_time(self, changed: int, now: int) -> int:
        """Say when a file was written to that has changed since the last look.

        changed: its time. Some file systems keep whole seconds.
        """
        at = changed - self._ahead + (TICK if changed % SECOND else SECOND)
        if not self._steady or not self._looked <= at <= now + SECOND:
            return now
        return min(at, now)
