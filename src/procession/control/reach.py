"""What makes a run reachable from other terminals, for as long as it is there.

The run has a socket in the user's runtime directory. It listens before it gets its name: when one
refuses connections, its launcher is gone. This is the only part of control that each launch pays
for.
"""

from __future__ import annotations

import _socket
import errno
import os
import threading
import time

from procession.system.directories import Refused, inside, open_runtime, socket_name
from procession.values.errors import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BACKLOG = 64
CLIENTS = 32  # at a time
FULL = b'{"procession": 1, "error": "%d others are looking at this run already"}\n' % CLIENTS
LAST_WORDS = 0.3  # seconds that clients have for the last line, when the run has ended


class Reach:
    """The socket of a run, and the threads that serve its clients. Made in the loop's thread.

    run: a `Group`, of which `look`, `stop`, `kill` and `send_signal` are called from any thread.
    name: of the socket, by which the run is found, "" if it cannot be: the log has a line about it.
    visited: whether anybody has ever looked. ending: how the run ended, for the last line to
    clients; None until then. stopped_by: the signal by which a client stopped the run, 0: none did.
    stopper: who that was, in words.
    """

    def __init__(self, run: Any) -> None:
        self.run = run
        self.name = ""
        self.visited = False
        self.ending: dict[str, Any] | None = None
        self.stopped_by = 0
        self.stopper = ""
        self._guests: dict[threading.Thread, _socket.socket] = {}
        self._directory = -1
        kind = _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
        self._socket = _socket.socket(_socket.AF_UNIX, kind)
        try:
            self._open(socket_name(run.driver.run_id))
        except (Refused, OSError) as e:
            self._let_go()
            if isinstance(e, OSError) and e.errno in (errno.EMFILE, errno.ENFILE):
                return  # none is left: the start will fail, and say so
            import logging

            said = str(e) if isinstance(e, Refused) else f"{e.strerror or e}"
            logging.getLogger("procession").warning(
                "procession: this run cannot be seen from other terminals: %s [P303]", said
            )

    def _open(self, name: str) -> None:
        self._directory = open_runtime(make=True)
        hidden = inside(self._directory, f".{os.getpid()}.{os.urandom(4).hex()}")
        os.fchmod(self._socket.fileno(), 0o600)
        self._socket.bind(hidden)
        self._socket.listen(BACKLOG)
        os.rename(hidden, inside(self._directory, name))
        self.name = name
        self.run.driver.display.tap()
        self.run.driver.loop.watch(self._socket.fileno(), self._knocked)

    def note_stop(self, number: int, who: str, where: str = "another terminal") -> None:
        """Take note that a client stops the run."""
        self.stopped_by = self.stopped_by or number
        self.stopper = self.stopper or f"{signal_name(number)} from {where} ({who})"

    def _knocked(self) -> None:
        if not self._welcome():  # no descriptor is left: the run goes on
            self.run.driver.loop.forget(self._socket.fileno())
            self._hide()

    def _welcome(self) -> bool:
        """Let a thread serve the next client; tells whether there was one."""
        raw: Any = self._socket  # no object but this one may own the descriptor, see `forget`
        try:
            guest = _socket.socket(fileno=raw._accept()[0])
        except OSError:
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
        if self._directory < 0:
            return
        self._hide()
        while self._welcome():
            pass
        self._shut(_socket.SHUT_RD)  # nothing more will be asked
        until = time.monotonic() + LAST_WORDS
        for thread in self._guests:
            thread.join(max(0.0, until - time.monotonic()))
        self._shut(_socket.SHUT_RDWR)  # who does not read is not waited for
        self._let_go()

    def _hide(self) -> None:
        """Remove the socket's name: no other client will come."""
        try:
            os.unlink(inside(self._directory, self.name))
        except OSError:
            pass  # it is removed

    def _shut(self, how: int) -> None:
        for guest in self._guests.values():
            try:
                guest.shutdown(how)
            except OSError:
                pass  # it has gone

    def _let_go(self) -> None:
        self._socket.close()
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)

    def forget(self) -> None:
        """Let go of everything in a fork of the launcher."""
        self._let_go()
        for guest in self._guests.values():
            guest.close()
