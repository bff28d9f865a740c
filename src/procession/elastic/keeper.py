"""The launcher's side of `worker.gate`: opens the gate when all ranks have returned."""

from __future__ import annotations

import os

from procession.group.group import Group
from procession.values.events import Event
from procession.worker.gate import Gate

ENDING = {"stopping", "sweeping", "succeeded", "failed", "stopped"}


class Keeper:
    """Keeps the ranks of a group until all have returned.

    nproc: how many. gate: what they wait at, an argument of their function.
    """

    def __init__(self, nproc: int) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._read, True)
        self._left = set(range(nproc))
        self._nproc = nproc
        self.gate = Gate(self._read)

    def watch(self, group: Group) -> None:
        """Open the gate when the time has come."""
        group.hear(self._hear)

    def _hear(self, event: Event) -> None:
        if event.kind == "reported" and event.rank is not None:
            self._left.discard(event.rank)
        if not self._left or event.kind in ENDING:
            self.open()

    def open(self) -> None:
        """Let all go, for ever."""
        if self._write < 0:
            return
        write, self._write = self._write, -1
        try:
            os.write(write, bytes(self._nproc))  # far less than a pipe holds
        finally:
            os.close(write)
            os.close(self._read)
