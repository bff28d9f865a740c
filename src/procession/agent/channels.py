"""The agent's ends of outcome channels: what ranks tell of their outcomes, and when they end.

Theory of operation. See `worker.outcome` for the frames. The agent unpickles nothing and keeps
nothing: of a frame it reads the header, and passes the body on as it comes, at most `INLINE` bytes
at a time. A rank that sends faster than the launcher reads has to wait: its channel is not read
while too much waits to be sent.

A rank can write anything into its channel. Which frames its program may send, and how large, has
been decided by the launcher (`prepare.results.permitted`). A frame that is not permitted ends the
belief: what comes after it is read, so that its writer does not wait, and dropped.
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import

from procession.agent.protocol import FD_SIZE, close_all, passed
from procession.worker.outcome import DEBUG, DONE, ERROR, FAILED, HEADER, INLINE, VALUE

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BLOCK = 64 << 10
MOST_BLOCKS = 4096  # of a dead rank: more than a socket holds; what it has forked may still write
ROOM = socket.CMSG_SPACE(4 * FD_SIZE)


class Channel:
    """The channel of one rank.

    may: what the rank may send: `largest`, the largest body by kind of frame, and `pickles`. tell:
    takes the parts of messages about it, and descriptors that go with them. outcome: the kind of
    frame that told it, b"" while none has; at: when it happened. ended: nothing more will come.
    """

    def __init__(
        self, sock: socket.socket, rank: int, may: dict[str, Any], tell: Callable[..., None]
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.fd = sock.fileno()
        self.rank = rank
        self._largest: dict[bytes, int] = may["largest"]
        self._pickles: bool = may["pickles"]
        self._tell = tell
        self._data = bytearray()
        self._fds: list[int] = []
        self._left = 0  # bytes that are still to come of a large body
        self._frame = b"", 0  # kind and time of a frame that is being read
        self._described = False
        self._refused = False
        self.outcome = b""
        self.at = 0
        self.ended = False

    @property
    def torn(self) -> bool:
        """Whether an outcome was begun and not completed."""
        return not self.outcome and bool(self._data or self._left)

    def read(self, *, whole: bool = False) -> bool:
        """Read what there is; True if an outcome has come. whole: all that a dead rank has sent."""
        before = self.outcome
        for _ in range(MOST_BLOCKS if whole else 1):
            if self.ended:
                break
            try:
                data, control, _, _ = self._sock.recvmsg(BLOCK, ROOM, socket.MSG_CMSG_CLOEXEC)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data, control = b"", []
            self._fds += passed(control)
            self.ended = not data
            if not self._refused:
                self._take_data(data)
            if self._refused:
                self._drop()
        return self.outcome != before

    def _take_data(self, data: bytes) -> None:
        if self._left:
            data = self._pass_on(data)
        self._data += data
        while not self._left and not self._described and len(self._data) >= HEADER.size:
            kind, length, at = HEADER.unpack_from(self._data)
            if fault := self._fault(kind, length):
                self._refused = True
                self._tell("refused", self.rank, fault)
                return
            if kind == DEBUG:
                del self._data[: HEADER.size]
                self._tell("debug", self.rank, fds=(self._fds.pop(0),))
            elif kind.islower():  # the body is in a file
                fd = self._fds.pop(0) if self._fds else -1
                del self._data[: HEADER.size]
                self._complete(kind, at, ("file", self.rank, kind.upper(), at, length), fd)
            elif length > INLINE:
                body = bytes(self._data[HEADER.size :])
                self._data.clear()
                self._frame, self._left = (kind, at), length
                self._data += self._pass_on(body)
            elif len(self._data) >= HEADER.size + length:
                body = bytes(self._data[HEADER.size : HEADER.size + length])
                del self._data[: HEADER.size + length]
                self._complete(kind, at, ("frame", self.rank, kind, at, body))
            else:
                return
        if self._described:
            self._drop()  # what comes after the outcome changes nothing

    def _pass_on(self, data: bytes) -> bytes:
        """Pass on what belongs to a large body; gives what comes after it."""
        piece, rest = data[: self._left], data[self._left :]
        self._left -= len(piece)
        if piece:
            self._tell("piece", self.rank, piece)
        if not self._left:
            kind, at = self._frame
            self._complete(kind, at, ("frame", self.rank, kind, at, None))
        return rest

    def _complete(self, kind: bytes, at: int, words: tuple[Any, ...], fd: int = -1) -> None:
        kind = kind.upper()
        if self.outcome:
            self._described = True  # an error is described some time after it happened
        else:
            self.outcome, self.at = kind, at
            self._described = kind != FAILED
        self._tell(*words, fds=() if fd < 0 else (fd,))

    def _fault(self, kind: bytes, length: int) -> str:
        """Say what is wrong with the frame that such a header begins; "" if nothing is."""
        known = kind.upper()
        most = self._largest.get(known)
        expected = (ERROR,) if self.outcome else (DONE, VALUE, FAILED, ERROR, DEBUG)
        if kind == DEBUG and not self._fds:
            return "it announced a socket that did not come"
        if known in expected and most is not None and length <= most:
            return "" if kind == known or self._fds else "it announced a file that did not come"
        if known == VALUE and not self._pickles:
            return "it sent a pickled value, which only functions may"
        if known in expected and most is not None:
            return f"it announced {length} bytes on its outcome channel"
        return "it wrote to its outcome channel, which is not its own"

    def _drop(self) -> None:
        self._data.clear()
        self._left = 0
        close_all(self._fds)
        self._fds.clear()

    def answer(self) -> None:
        """Let a rank that has reported its failure exit."""
        if self.fd >= 0:
            try:
                self._sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it is gone

    def close(self) -> None:
        """Close the socket."""
        self._drop()
        self._sock.close()
        self.fd = -1
