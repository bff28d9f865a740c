"""What makes a run reachable from other terminals, for as long as it is there."""

from __future__ import annotations

import os
import threading

from procession.control.door import Shared, open_door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.control.reachable import Reachable, Shown, Watcher

_JOIN = 1.0  # seconds for the thread to send last lines; it takes a third of that at most


class Reach(Shared):
    """The socket of a run, and the thread that serves it. Made in the thread of the run's loop.

    name: by which the run is found, "" if it cannot be.
    """

    def __init__(self, run: Reachable, loop: Watcher, screen: Shown, run_id: str) -> None:
        super().__init__(screen)
        self._run = run
        self._loop = loop
        self._thread: threading.Thread | None = None
        self._door = open_door(run_id)
        self.name = self._door.name if self._door is not None else ""
        if self._door is not None:
            screen.tap()
            loop.watch(self._door.fileno(), self._knocked)

    def _knocked(self) -> None:
        """Let a thread serve the first client, and all that come later."""
        assert self._door is not None
        self._loop.unwatch(self._door.fileno())
        try:
            wake = self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            if self.recent is not None:
                self.recent.wake_by(self.wake)
            self._thread = threading.Thread(
                target=self._serve, args=(wake,), name="procession-control", daemon=True
            )
            self._thread.start()
        except (OSError, RuntimeError):  # descriptors or threads are short: the run goes on
            self._thread = None
            self._door.close()

    def _serve(self, wake: int) -> None:
        from procession.control.serve import Server

        assert self._door is not None
        Server(self._run, self, self._door, wake).run()

    @property
    def visited(self) -> bool:
        """Whether anybody has ever looked."""
        return self._thread is not None

    def close(self, ending: dict[str, Any] | None = None) -> None:
        """Tell clients how the run ended, and remove the socket; may be called again."""
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
            # A thread that is late still waits for it, so it stays.
            if wake >= 0 and not (self._thread is not None and self._thread.is_alive()):
                os.close(wake)
        if self._door is not None:
            self._door.close()

    def forget(self) -> None:
        """Let go of everything in a fork of the launcher."""
        if self._door is not None:
            self._door.forget()
