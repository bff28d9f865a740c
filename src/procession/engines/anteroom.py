"""Where a driver's connections wait until it is known who has made them.

Theory of operation. Where nodes share no secret, a third party may vouch for each connection, such
as MUNGE. Then the node process sends an introduction first, and both sides make the key of the link
from it; only whom the third party trusts can do so. To read an introduction may take long (another
process is asked), so it is done in a thread, one after another. The loop goes on meanwhile.

    introduction: 8 bytes magic, length of the rest (2 bytes), the rest

If there are too many guests, the oldest of those that are not yet introduced is sent away: nobody
can keep others out by silence. Who is introduced waits, however long that takes: a large job comes
at once, and who is sent away comes again, and would be the last in the queue. Who has given up
meanwhile, and so has perhaps come again, does not get in.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable

from procession.engines.contract import EngineError
from procession.system.eventloop import EventLoop
from procession.system.threads import Errands

MAGIC = b"PRCSSN\x00I"
SPARE = 64  # guests beyond those that are expected
_LENGTH = struct.Struct("!H")
_HEAD = len(MAGIC) + _LENGTH.size

Admits = Callable[[bytes], bytes]  # from an introduction to the key of the link; may block


def introduction(text: bytes) -> bytes:
    """Give the bytes to send first."""
    return MAGIC + _LENGTH.pack(len(text)) + text


class _Guest:
    """A connection. data: what has come of its introduction. gone: it was sent away."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = b""
        self.gone = False

    @property
    def missing(self) -> int:
        """How many bytes are still to come, as far as is known.

        Raises ValueError for a stranger.
        """
        if not MAGIC.startswith(self.data[: len(MAGIC)]):
            raise ValueError("no introduction")
        if len(self.data) < _HEAD:
            return _HEAD - len(self.data)
        (length,) = _LENGTH.unpack_from(self.data, len(MAGIC))
        return _HEAD + int(length) - len(self.data)


class Anteroom:
    """Takes connections, and gives those that are introduced to `enter`, with the key of the link.

    most: how many are expected.
    admits: reads an introduction, in a thread of its own. Raises EngineError, OSError or ValueError
    for one that is not to be believed. All methods are for the loop's thread.
    """

    def __init__(
        self,
        loop: EventLoop,
        admits: Admits,
        enter: Callable[[socket.socket, bytes], None],
        most: int,
    ) -> None:
        self._loop = loop
        self._admits = admits
        self._enter = enter
        self._room = most + SPARE
        self._guests: dict[_Guest, None] = {}
        self._introduced: dict[_Guest, None] = {}  # and not yet believed
        self._errands = Errands("procession-anteroom")

    def receive(self, sock: socket.socket) -> None:
        """Take a connection."""
        if len(self._guests) + len(self._introduced) >= self._room:
            if not self._guests:
                sock.close()
                return
            self._send_away(next(iter(self._guests)))
        guest = _Guest(sock)
        sock.setblocking(False)
        self._guests[guest] = None
        self._loop.watch(sock.fileno(), lambda: self._look(guest))

    def close(self) -> None:
        """Send everybody away."""
        for guest in [*self._guests, *self._introduced]:
            self._send_away(guest)
        self._errands.end()

    def _look(self, guest: _Guest) -> None:
        try:
            data = guest.sock.recv(guest.missing)  # and nothing of what comes after it
            guest.data += data
            missing = guest.missing
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, ValueError):
            data, missing = b"", 0
        if not data:
            self._send_away(guest)
        elif not missing:
            self._loop.forget(guest.sock.fileno())
            del self._guests[guest]
            self._introduced[guest] = None
            self._errands.do("reading an introduction", lambda: self._ask(guest), always=True)

    def _ask(self, guest: _Guest) -> None:
        """Find out the key; in the thread."""
        if guest.gone:
            return
        try:
            key = b"" if _has_left(guest.sock) else self._admits(guest.data[_HEAD:])
        except (EngineError, OSError, ValueError):
            key = b""
        self._loop.request(lambda: self._decide(guest, key))

    def _decide(self, guest: _Guest, key: bytes) -> None:
        if guest.gone:
            return
        if not key or _has_left(guest.sock):
            self._send_away(guest)
            return
        del self._introduced[guest]
        self._enter(guest.sock, key)

    def _send_away(self, guest: _Guest) -> None:
        guest.gone = True
        self._guests.pop(guest, None)
        self._introduced.pop(guest, None)
        self._loop.forget(guest.sock.fileno())
        guest.sock.close()


def _has_left(sock: socket.socket) -> bool:
    """Tell whether the other end has closed a connection, or it broke. Raises ValueError."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))
