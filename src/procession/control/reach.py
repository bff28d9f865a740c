"""What makes a group reachable from other terminals, for as long as it is there."""

from __future__ import annotations

import os
import threading

from procession.control.door import open_door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.group import Group
    from procession.output.recent import Recent
    from procession.output.wiring import Wiring
    from procession.supervisor import Supervisor

_JOIN = 1.0  # seconds for the thread to say its last words; it takes a third of it at most


class Reach:
    """The door of a group, and the thread behind it. Made in the supervisor's thread.

    prefixes: of the lines of each rank.
    stopped_by: the signal by which somebody stopped the group from elsewhere, 0: nobody did.
    ending: how it ended, for the last line to clients; None until then.
    """

    def __init__(self, group: Group, supervisor: Supervisor, streams: Wiring, run: str) -> None:
        self.stopped_by = 0
        self.ending: dict[str, Any] | None = None
        self.prefixes = streams.prefixes
        self._group = group
        self._supervisor = supervisor
        self._thread: threading.Thread | None = None
        self._wake = -1
        self._lock = threading.Lock()
        self._door = open_door(run)
        self.name = self._door.name if self._door is not None else ""
        self._streams = streams
        if self._door is not None:
            streams.tap()
            supervisor.watch(self._door.fileno(), self._knocked)

    @property
    def recent(self) -> Recent | None:
        """What its console has shown last, None if what ranks write does not pass us."""
        return self._streams.recent

    def _knocked(self) -> None:
        """Let a thread serve the first client, and all that come later."""
        assert self._door is not None
        self._supervisor.unwatch(self._door.fileno())
        try:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            if self.recent is not None:
                self.recent.wake_by(self.wake)
            self._thread = threading.Thread(
                target=self._serve, name="procession-control", daemon=True
            )
            self._thread.start()
        except (OSError, RuntimeError):  # descriptors or threads are short: the run goes on
            self._thread = None
            self._door.close()

    def _serve(self) -> None:
        from procession.control.serve import Server

        assert self._door is not None
        Server(self._group, self, self._door, self._wake).run()

    def wake(self) -> None:
        """Have the thread look for news; from any thread."""
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    @property
    def visited(self) -> bool:
        """Whether anybody has ever looked."""
        return self._thread is not None

    def note_stop(self, number: int) -> None:
        """Take note that somebody else stops the group."""
        self.stopped_by = self.stopped_by or number

    def close(self, ending: dict[str, Any] | None = None) -> None:
        """Tell clients how it ended, and close the door behind them; may be called again."""
        self.ending = self.ending or ending or {}
        if self._door is not None:
            self._door.hide()
        self.wake()
        if self._thread is not None:
            self._thread.join(_JOIN)
        if self.recent is not None:
            self.recent.wake_by(None)
        with self._lock:
            wake, self._wake = self._wake, -1
            if wake >= 0 and not (self._thread is not None and self._thread.is_alive()):
                os.close(wake)
        if self._door is not None:
            self._door.close()

    def forget(self) -> None:
        """Let go of everything in a fork of the launcher."""
        if self._door is not None:
            self._door.forget()


__all__ = ["Reach"]
