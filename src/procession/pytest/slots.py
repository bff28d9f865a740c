"""The limit for the ranks that all workers of pytest-xdist run at the same time.

Theory of operation. Each rank that may run is a file of a directory that all workers have in
common, and is in use while somebody holds its lock (flock). A test takes as many as it has ranks,
one after the other, and only the worker that holds the lock of the file `turn` may take any: so two
workers never wait for each other with half of what they need. The kernel gives back the locks of
a worker that dies. A test with more ranks than there are takes all of them.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAUSE = 0.005  # seconds between two looks for a rank that has ended


class Slots:
    """The ranks that may run at a time. where: a directory that exists. most: how many."""

    def __init__(self, where: Path, most: int) -> None:
        self._where = where
        self.most = most
        self._held: list[int] = []

    def take(self, number: int) -> None:
        """Wait until so many ranks may run."""
        turn = os.open(self._where / "turn", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            free = list(range(self.most))
            while len(self._held) < min(number, self.most):
                for slot in list(free):
                    if len(self._held) < number and self._took(slot):
                        free.remove(slot)
                if len(self._held) < min(number, self.most):
                    time.sleep(PAUSE)
        finally:
            os.close(turn)

    def _took(self, slot: int) -> bool:
        fd = os.open(self._where / str(slot), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._held.append(fd)
        return True

    def give_back(self) -> None:
        """Let others have them."""
        for fd in self._held:
            os.close(fd)
        self._held.clear()


def slots_of(config: Any) -> Slots | None:
    """Give the ranks that the workers of a session share; None where there is one process only."""
    if not hasattr(config, "workerinput"):
        return None
    most = config.getoption("--ranks-at-once") or 2 * len(os.sched_getaffinity(0))
    # The base directories of workers lie side by side.
    where = config._tmp_path_factory.getbasetemp().parent / "ranks-at-once"
    where.mkdir(mode=0o700, exist_ok=True)
    return Slots(where, most)
