"""A wire on a socket, in an event loop: one end of the way between a driver and an agent."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable

from procession.engines.wire import Message, Wire, WireError
from procession.system.eventloop import EventLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.wire import Fields, Side

BLOCK = 1 << 18  # bytes that are read at once; then others have their turn


class Link:
    """One end. Owns the socket.

    take: called with each message. lost: called once, with the reason in words, when nothing more
    can come; then the link is closed. heard_at: when anything came last, in seconds of the
    monotonic clock: a long message is a sign of life while it is under way.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        key: bytes,
        side: Side,
        take: Callable[[Message], None],
        lost: Callable[[str], None],
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.heard_at = time.monotonic()
        self._loop = loop
        self._socket: socket.socket | None = sock
        self._wire = Wire(key, side)
        self._take = take
        self._lost = lost
        self._early: list[tuple[str, Fields, bytes]] = []  # before the peer's opening has come
        self._unsent: deque[memoryview] = deque([memoryview(self._wire.opening)])
        loop.watch(sock.fileno(), self.look)
        self._flush()

    def on_lost(self, call: Callable[[str], None]) -> None:
        """Have another one told when it is lost."""
        self._lost = call

    def on_message(self, call: Callable[[Message], None]) -> None:
        """Have another one given what comes."""
        self._take = call

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._socket is None

    @property
    def trusted(self) -> bool:
        """Whether the peer has proved that it has the key."""
        return self._wire.trusted

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._unsent or self._early)

    def address(self) -> str:
        """Give our own address on it, by which the peer's network can reach us."""
        return self._socket.getsockname()[0] if self._socket is not None else ""

    def send(self, kind: str, fields: Fields | None = None, blob: bytes = b"") -> None:
        """Send a message; what a closed link is given is lost. Raises ValueError; see `Wire`."""
        if self._socket is None:
            return
        if not self._wire.ready:
            self._early.append((kind, fields or {}, blob))
            return
        idle = not self._unsent
        self._unsent += map(memoryview, self._wire.pack_parts(kind, fields or {}, blob))
        if idle:
            self._flush()

    def look(self) -> None:
        """Read what has come, and send what can be sent; returns at once."""
        if self._unsent:
            self._flush()
        if self._socket is None:
            return
        try:
            data = self._socket.recv(BLOCK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as e:
            self.lose(f"its connection broke ({e.strerror})")
            return
        if not data:
            self.lose("its connection ended")
            return
        self.heard_at = time.monotonic()
        try:
            messages = self._wire.feed(data)
        except WireError as e:
            self.lose(str(e))
            return
        if self._wire.ready:
            early, self._early = self._early, []
            for each in early:
                self.send(*each)
        for message in messages:
            if not self.closed:  # what was taken before may have closed it
                self._take(message)

    def _flush(self) -> None:
        if self._socket is None:
            return
        try:
            while self._unsent:
                first = self._unsent[0]
                sent = self._socket.send(first)
                if sent < len(first):
                    self._unsent[0] = first[sent:]
                else:
                    self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as e:
            why = e.strerror or os.strerror(e.errno or 0)
            self._loop.request(lambda: self.lose(f"its connection broke ({why})"))
            self._unsent.clear()
        self._loop.want_write(self._socket.fileno(), bool(self._unsent))

    def lose(self, why: str) -> None:
        """Close it, and tell that it is lost, unless it is closed already."""
        if self._socket is not None:
            self.close()
            self._lost(why)

    def close(self) -> None:
        """Close it; nothing is told."""
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None
            self._unsent.clear()
            self._early.clear()


__all__ = ["Link"]
