"""One end of a link between driver and node process: a wire on a socket, in an event loop."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections import deque
from collections.abc import Callable

from procession.engines.wire import Fields, Message, Parcel, Piece, Side, Wire, WireError
from procession.system.eventloop import EventLoop

BLOCK = 1 << 18  # bytes that are read at once; then others have their turn
CLOSED = (errno.ECONNRESET, errno.EPIPE)
SENT = 1 << 20  # bytes that are sent at once, likewise
# Kinds of messages that, if small, go between the parts of a large one: signs of life, and what
# people wait for. All others keep their order.
HASTY = ("beat", "pulse", "credit", "ask", "answer")


class NodeLink:
    """One end. Owns the socket.

    take: called with each message. lost: called once, with the reason in words, when nothing more
    can come; then the link is closed. Both may be replaced. heard_at: when anything came last, in
    seconds of the monotonic clock: a long message is a sign of life while it is under way.
    closed_there: whether the peer has closed it, or its process has ended. first: what is sent
    before the opening.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        key: bytes,
        side: Side,
        take: Callable[[Message], None],
        lost: Callable[[str], None],
        first: bytes = b"",
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.heard_at = time.monotonic()
        self.closed_there = False
        self._loop = loop
        self._socket: socket.socket | None = sock
        self._wire = Wire(key, side)
        self.take = take
        self.lost = lost
        self._hasty: deque[Parcel] = deque()
        self._parcels: deque[Parcel] = deque()
        self._unsent: deque[Piece] = deque([first + self._wire.opening])
        loop.watch(sock.fileno(), self.exchange)
        self._flush()

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._socket is None

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._unsent or self._hasty or self._parcels)

    @property
    def encryption(self) -> str:
        """What encrypts it, in words; "" for nothing."""
        return self._wire.encryption

    def address(self) -> str:
        """Give our own address on it, by which the peer's network can reach us."""
        return self._socket.getsockname()[0] if self._socket is not None else ""

    def send(self, kind: str, fields: Fields | None = None, blob: Piece = b"") -> None:
        """Send a message; a closed link drops it. Raises ValueError; see `Parcel`.

        A large one goes in parts, as the peer takes them; returns at once.
        """
        if self._socket is None:
            return
        parcel = Parcel(kind, fields or {}, blob)
        (self._hasty if kind in HASTY and parcel.fits else self._parcels).append(parcel)
        if not self._unsent:
            self._flush()

    def exchange(self) -> None:
        """Read what has come, and send what can be sent; returns at once."""
        if self.waiting:
            self._flush()
        if self._socket is None:
            return
        try:
            data = self._socket.recv(BLOCK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as e:
            self.closed_there = e.errno in CLOSED
            self.lose(f"its connection broke ({e.strerror})")
            return
        if not data:
            self.closed_there = True
            self.lose("its connection ended")
            return
        self.heard_at = time.monotonic()
        try:
            messages = self._wire.feed(data)
        except WireError as e:
            self.lose(str(e))
            return
        handshake = self._wire.out()
        if handshake:
            self._unsent.append(handshake)
        self._flush()
        for message in messages:
            if not self.closed:  # a message before may have closed it
                self.take(message)

    def _flush(self) -> None:
        """Send what the peer takes now, up to a limit."""
        if self._socket is None:
            return
        room = SENT
        try:
            while room > 0 and (self._unsent or self._pack()):
                first = self._unsent[0]
                sent = self._socket.send(first)
                room -= sent
                if sent < len(first):
                    self._unsent[0] = memoryview(first)[sent:]
                else:
                    self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as e:
            why = e.strerror or os.strerror(e.errno or 0)
            self.closed_there = e.errno in CLOSED
            self._loop.request(lambda: self.lose(f"its connection broke ({why})"))
            self._forget()
        self._loop.want_write(
            self._socket.fileno(), bool(self._unsent) or (self._wire.ready and self.waiting)
        )

    def _pack(self) -> bool:
        """Pack the next frame, if there is one and the peer is ready for it."""
        if not self._wire.ready:
            return False
        queue = self._hasty or self._parcels
        if not queue:
            return False
        self._unsent += self._wire.frame(queue[0])
        if queue[0].done:
            queue.popleft()
        return True

    def _forget(self) -> None:
        self._unsent.clear()
        self._hasty.clear()
        self._parcels.clear()

    def lose(self, why: str) -> None:
        """Close it, and call `lost`, unless it is closed already."""
        if self._socket is not None:
            self.close()
            self.lost(why)

    def close(self) -> None:
        """Close it, without calling `lost`."""
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
            self._forget()


def watch_lease(loop: EventLoop, link: NodeLink, lease: float) -> None:
    """Lose a link on which nothing has come for the time of a lease, in seconds.

    If this process itself was stopped, what came meanwhile is read first.
    """
    turned = time.monotonic()

    def look() -> None:
        nonlocal turned
        now = time.monotonic()
        stalled, turned = now - turned > lease, now
        silent = now - link.heard_at
        if silent > lease and not stalled:
            # A driver that is too busy to send may still read why this node is lost.
            link.send("leaving", {"silent": silent})
            link.lose(f"nothing has come for {silent:.1f} s")
        else:
            loop.after("lease", lease / 10, look)

    look()
