"""What makes a run reachable from other terminals, for as long as it is there."""

from __future__ import annotations

import _socket
import threading
import time

from procession.control.door import Shared, open_door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.control.door import AnyDriver, Door
    from procession.output.wiring import Display

CLIENTS = 32  # at a time
FULL = b'{"procession": 1, "error": "%d others are looking at this run already"}\n' % CLIENTS
LAST_WORDS = 0.3  # seconds that clients have for the last line, when the run has ended


class Reach(Shared):
    """The socket of a run, and the threads that serve its clients. Made in the loop's thread.

    name: by which the run is found, "" if it cannot be. visited: whether anybody has ever looked.
    """

    def __init__(self, run: Any, driver: AnyDriver, display: Display, run_id: str) -> None:
        super().__init__(run, driver, display)
        self.visited = False
        self._guests: dict[threading.Thread, _socket.socket] = {}
        self._door = open_door(run_id)
        self.name = self._door.name if self._door is not None else ""
        if self._door is not None:
            display.tap()
            driver.loop.watch(self._door.fileno(), self._knocked)

    def _knocked(self) -> None:
        assert self._door is not None
        if not self._welcome(self._door):  # no descriptor is left: the run goes on
            self.driver.loop.forget(self._door.fileno())
            self._door.hide()

    def _welcome(self, door: Door) -> bool:
        """Let a thread serve the next client; tells whether there was one."""
        guest = door.accept()
        if guest is None:
            return False
        self.visited = True
        self._guests = {t: g for t, g in self._guests.items() if t.is_alive()}
        try:
            if len(self._guests) >= CLIENTS:
                guest.send(FULL)
                guest.close()
                return True
            thread = threading.Thread(
                target=self._serve, args=(guest,), name="procession-control", daemon=True
            )
            thread.start()
            self._guests[thread] = guest
        except (OSError, RuntimeError):  # it has gone; threads are short: the run goes on
            guest.close()
        return True

    def _serve(self, guest: _socket.socket) -> None:
        try:
            from procession.control.serve import Visit

            Visit(guest, self).serve()
        except (OSError, ImportError):
            pass  # descriptors are short
        finally:
            guest.close()

    def close(self, ending: dict[str, Any] | None = None) -> None:
        """Tell clients how the run ended, and remove the socket; may be called again."""
        self.ending = self.ending or ending or {}
        if self._door is None:
            return
        self._door.hide()
        while self._welcome(self._door):
            pass
        self._shut(_socket.SHUT_RD)  # nothing more will be asked
        until = time.monotonic() + LAST_WORDS
        for thread in self._guests:
            thread.join(max(0.0, until - time.monotonic()))
        self._shut(_socket.SHUT_RDWR)  # who does not read is not waited for
        self._door.close()

    def _shut(self, how: int) -> None:
        for guest in self._guests.values():
            try:
                guest.shutdown(how)
            except OSError:
                pass  # it has gone

    def forget(self) -> None:
        """Let go of everything in a fork of the launcher."""
        if self._door is not None:
            self._door.forget()
        for guest in self._guests.values():
            guest.close()
