"""The limit for the ranks that all workers of pytest-xdist run at the same time.

Theory of operation. Each rank that may run is a byte of a file that all workers have in common. It
is in use while a worker has its lock. A test takes as many bytes in a row as it has ranks. Only the
worker that has the lock of the byte behind them may look for any: so no other one takes what a
large test waits for. The kernel gives back the locks of a worker that dies. A test with more ranks
than there are takes all of them.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Any

PAUSE = 0.005  # seconds between two looks for a rank that has ended


class Slots:
    """The ranks that may run at a time. path: of the file. most: how many."""

    def __init__(self, path: Path, most: int) -> None:
        # To the end of the process, whose locks end when it closes the file.
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._most = most

    @contextmanager
    def held(self, number: int) -> Generator[None]:
        """Wait until so many ranks may run; they do until others have them."""
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, self._most)
        number = min(number, self._most)
        while not any(self._took(number, at) for at in range(self._most - number + 1)):
            time.sleep(PAUSE)
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._most)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def _took(self, number: int, at: int) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, number, at)
        except OSError:
            return False
        return True


def slots_of(config: Any) -> Slots | None:
    """Give the ranks that the workers of a session share; None where there is one process only."""
    if not hasattr(config, "workerinput"):
        return None
    most = config.getoption("--ranks-at-once") or 2 * len(os.sched_getaffinity(0))
    # The base directories of workers lie side by side.
    return Slots(config._tmp_path_factory.getbasetemp().parent / "ranks-at-once", most)
