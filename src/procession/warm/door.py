"""The keeper's socket: its name, how the keeper gets it, and how it is reached.

The socket is in the user's runtime directory (`system.directories`), which must be the user's
alone. A keeper takes the name under a lock on that directory: if several start at the same time,
one of them stays. A socket at which nobody listens was left by a keeper that was killed; the next
keeper removes it. A keeper whose socket was removed, or replaced by that of another keeper, cannot
be reached any more: it exits, and does not touch the other socket.
"""

from __future__ import annotations

import _socket as socket
import fcntl
import os
import time

from procession.system.directories import Refused, inside, open_runtime
from procession.warm.wire import Unusable, peer_of

NAME = ".keeper"  # no run has a name with a dot in front
BACKLOG = 64
LOCK_SECONDS = 2.0


class NoKeeper(Exception):
    """Nobody listens: there is no keeper."""


class Door:
    """The socket of this keeper, and its name. listening: the socket."""

    def __init__(self, listening: socket.socket, directory: int) -> None:
        self.listening = listening
        self._directory = directory
        self._file = self._seen()

    def _seen(self) -> tuple[int, int]:
        found = os.lstat(inside(self._directory, NAME))
        return found.st_dev, found.st_ino

    @property
    def is_ours(self) -> bool:
        """Whether this keeper can be reached: the name is that of its socket."""
        try:
            return self._seen() == self._file
        except OSError:
            return False

    def leave(self) -> None:
        """Remove the socket, if it is ours."""
        try:
            _lock(self._directory)
            if self.is_ours:
                os.unlink(inside(self._directory, NAME))
        except OSError:
            pass  # somebody else did


def open_door() -> Door | None:
    """Take the name; None if another keeper has it. Raises Refused, and OSError.

    What it opens before it fails is closed by the end of this process.
    """
    directory = open_runtime(make=True)
    _lock(directory)
    listening = _listen(inside(directory, NAME))
    if listening is None:
        return None
    found = Door(listening, directory)
    fcntl.flock(directory, fcntl.LOCK_UN)
    return found


def _lock(directory: int) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)  # another keeper that starts holds it for a moment


def _listen(path: str) -> socket.socket | None:
    kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        sock.connect(path)
        return None
    except FileNotFoundError:
        pass
    except ConnectionRefusedError:
        os.unlink(path)
    os.fchmod(sock.fileno(), 0o600)
    sock.bind(path)
    sock.listen(BACKLOG)
    return sock


def knock(seconds: float) -> tuple[socket.socket, int]:
    """Connect to the keeper of this user; gives the socket, and the keeper's pid.

    seconds: the limit for each message on the socket. Raises NoKeeper, and Unusable.
    """
    try:
        directory = open_runtime(make=False)
    except FileNotFoundError:
        raise NoKeeper from None
    except Refused as e:
        raise Unusable(str(e)) from None
    except OSError as e:
        raise Unusable(f"its directory: {e.strerror or e}") from None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(seconds)
        sock.connect(inside(directory, NAME))
        pid, uid = peer_of(sock)
        if uid != os.geteuid():
            raise Unusable(f"its socket belongs to user {uid}")
        if not pid:
            raise Unusable("it is in another namespace of pids")
        return sock, pid
    except BaseException as e:
        sock.close()
        if isinstance(e, (FileNotFoundError, ConnectionRefusedError)):
            raise NoKeeper from None
        if isinstance(e, OSError):
            raise Unusable(f"its socket: {e.strerror or e}") from None
        raise
    finally:
        os.close(directory)
