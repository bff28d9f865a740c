"""The socket at which a run can be reached, and what the threads behind it share.

This and `reach` are the only parts of control that each launch pays for. The socket listens before
it gets its name. So when a socket refuses connections, its launcher is gone.
"""

from __future__ import annotations

import _socket
import errno
import os

from procession.system.directories import Refused, inside, open_runtime, socket_name
from procession.values.errors import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.driver.job import JobDriver
    from procession.driver.local import LocalDriver
    from procession.output.wiring import Display

    AnyDriver = LocalDriver | JobDriver

BACKLOG = 64


class Door:
    """A listening socket in the user's runtime directory.

    name: of the socket, by which the run is found. Raises Refused, and OSError.
    """

    def __init__(self, run: str) -> None:
        self.name = socket_name(run)
        self._directory = -1
        kind = _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
        self.socket = _socket.socket(_socket.AF_UNIX, kind)
        try:
            self._directory = open_runtime(make=True)
            hidden = inside(self._directory, f".{os.getpid()}.{os.urandom(4).hex()}")
            os.fchmod(self.socket.fileno(), 0o600)
            self.socket.bind(hidden)
            self.socket.listen(BACKLOG)
            os.rename(hidden, inside(self._directory, self.name))
        except BaseException:
            self.forget()
            raise

    def fileno(self) -> int:
        """Give the descriptor that is readable when a client connects."""
        return self.socket.fileno()

    def accept(self) -> _socket.socket | None:
        """Give the next connection; None if there is none, or no descriptor for it."""
        raw: Any = self.socket  # no object but this one may own the descriptor, see `forget`
        try:
            return _socket.socket(fileno=raw._accept()[0])
        except OSError:
            return None

    def hide(self) -> None:
        """Remove the socket's name: no other client will come."""
        if self.name:
            try:
                os.unlink(inside(self._directory, self.name))
            except OSError:
                pass  # somebody has removed it
        self.name = ""

    def close(self) -> None:
        """Remove the socket; may be called again."""
        self.hide()
        self.forget()

    def forget(self) -> None:
        """Let go of it, as in a fork of its process."""
        self.socket.close()
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)


def open_door(run: str) -> Door | None:
    """Open the door of a run; None, with one line in the log, where that cannot be done."""
    try:
        return Door(run)
    except (Refused, OSError) as e:
        if isinstance(e, OSError) and e.errno in (errno.EMFILE, errno.ENFILE):
            return None  # none is left: the start will fail, and say so
        import logging

        said = str(e) if isinstance(e, Refused) else f"{e.strerror or e}"
        logging.getLogger("procession").warning(
            "procession: this run cannot be seen from other terminals: %s [P303]", said
        )
        return None


class Shared:
    """What the threads of clients share with that of the run.

    run: a `Group`, of which `look`, `stop`, `kill` and `send_signal` are called from any thread.
    driver, display: of the run. ending: how the run ended, for the last line to clients; None until
    then. stopped_by: the signal by which a client stopped the run, 0: none did. stopper: who that
    was, in words.
    """

    def __init__(self, run: Any, driver: AnyDriver, display: Display) -> None:
        self.ending: dict[str, Any] | None = None
        self.stopped_by = 0
        self.stopper = ""
        self.run = run
        self.driver = driver
        self.display = display

    def note_stop(self, number: int, who: str) -> None:
        """Take note that a client stops the run."""
        self.stopped_by = self.stopped_by or number
        self.stopper = self.stopper or f"{signal_name(number)} from another terminal ({who})"
