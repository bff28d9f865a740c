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
    """Take the name; None if another keeper has it. Raises Refused, and OSError."""
    directory = open_runtime(make=True)
    try:
        _lock(directory)
        found = _listen(directory)
        door = None if found is None else Door(found, directory)
    except BaseException:
        os.close(directory)
        raise
    if door is None:
        os.close(directory)
    else:
        fcntl.flock(directory, fcntl.LOCK_UN)
    return door


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


def _listen(directory: int) -> socket.socket | None:
    path = inside(directory, NAME)
    probe = _made()
    try:
        probe.connect(path)
        return None
    except FileNotFoundError:
        pass
    except ConnectionRefusedError:
        os.unlink(path)
    finally:
        probe.close()
    sock = _made()
    try:
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(path)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _made() -> socket.socket:
    kind = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    return socket.socket(socket.AF_UNIX, kind)


def knock(seconds: float) -> socket.socket:
    """Connect to the keeper of this user. seconds: the limit for each message on the socket.

    Raises NoKeeper, and Unusable.
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
        _, uid = peer_of(sock)
        if uid != os.geteuid():
            raise Unusable(f"its socket belongs to user {uid}")
        return sock
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        raise NoKeeper from None
    except OSError as e:
        sock.close()
        raise Unusable(f"its socket: {e.strerror or e}") from None
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
