"""What the loop of a run and the thread that serves its clients tell each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from procession.values.exit import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.control.reachable import Shown
    from procession.output.recent import Recent


class Shared:
    """Used by both threads.

    prefixes: of the lines of each rank. ending: how the run ended, for the last line to clients;
    None until then. stopped_by: the signal by which a client stopped the run, 0: none did.
    stopper: who that was, in words.
    """

    def __init__(self, screen: Shown) -> None:
        self.prefixes: Sequence[str] = screen.prefixes
        self.ending: dict[str, Any] | None = None
        self.stopped_by = 0
        self.stopper = ""
        self._screen = screen
        self._wake = -1
        self._lock = threading.Lock()  # of `_wake`

    @property
    def recent(self) -> Recent | None:
        """What the console has shown last, None if ranks write past this process."""
        return self._screen.recent

    def open(self) -> int:
        """Give a descriptor that is readable when there is news. Raises OSError."""
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        if self.recent is not None:
            self.recent.wake_by(self.wake)
        return self._wake

    def wake(self) -> None:
        """Have the thread look for news; from any thread."""
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def note_stop(self, number: int, who: str) -> None:
        """Take note that a client stops the run."""
        self.stopped_by = self.stopped_by or number
        self.stopper = self.stopper or f"{signal_name(number)} from another terminal ({who})"

    def close(self, *, used: bool) -> None:
        """Wake nobody any more. used: the thread still waits for the descriptor, so it stays."""
        if self.recent is not None:
            self.recent.wake_by(None)
        with self._lock:
            wake, self._wake = self._wake, -1
            if wake >= 0 and not used:
                os.close(wake)
