"""Ranks that a forkserver is asked for in one message."""

from __future__ import annotations

import os

from procession.forkserver.client import ForkServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

JOBS_AT_ONCE, FDS_AT_ONCE = 32, 64


class SpawnRequest:
    """Ranks to be asked for in one message, with the descriptors that they share.

    close: descriptors to be closed when the message was sent.
    """

    def __init__(self) -> None:
        self.close: list[int] = []
        self._jobs: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}

    def place(self, fd: int) -> int:
        """Give the place of a descriptor among those of the message."""
        return self._places.setdefault(fd, len(self._places))

    def add(self, job: dict[str, Any]) -> None:
        """Ask for one more rank; see `worker.setup`."""
        self._jobs.append(job)

    @property
    def full(self) -> bool:
        """Whether the next rank is for another message."""
        return len(self._jobs) >= JOBS_AT_ONCE or len(self._places) >= FDS_AT_ONCE

    def send(self, server: ForkServer) -> None:
        """Send the message, if it asks for anything."""
        if self._jobs:
            server.send(("spawn", self._jobs), list(self._places), self.close)
        else:
            self.drop()

    def drop(self) -> None:
        """Ask for nothing."""
        for fd in self.close:
            try:
                os.close(fd)
            except OSError:
                pass  # it is closed all the same
        self.close = []
