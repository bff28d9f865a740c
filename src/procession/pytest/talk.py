"""Messages between pytest's process, the spare, and ranks: pickles over private sockets.

`Rank` is how a rank talks while its test runs.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_FDS = 250  # beside one message; the kernel takes 253
LENGTH = struct.Struct("<Q")
FD_SIZE = struct.calcsize("i")


class Line:
    """One end of a stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._got = bytearray()

    def fileno(self) -> int:
        """Give the descriptor, for selectors."""
        return self.sock.fileno()

    def send(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        """Send a message, with descriptors beside it. Raises OSError if the other end is gone."""
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        data = memoryview(LENGTH.pack(len(body)) + body)
        if fds:
            data = data[socket.send_fds(self.sock, [data], list(fds)) :]
        self.sock.sendall(data)

    def send_if_there(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        """Send a message. If the other end is gone, that is noticed elsewhere."""
        try:
            self.send(message, fds)
        except OSError:
            pass

    def receive(self) -> Any:
        """Wait for the next message. Raises OSError if the other end is gone."""
        return self.receive_with_fds()[0]

    def receive_with_fds(self) -> tuple[Any, list[int]]:
        """Wait for the next message, and the descriptors that came beside it. Raises OSError."""
        fds: list[int] = []
        while not (found := self._next()):
            if not self._read(0, fds):
                raise ConnectionResetError("the process at the other end is gone")
        return found[0], fds

    def arrived(self) -> tuple[list[Any], bool]:
        """Read what there is without waiting; gives the messages, and whether more may come."""
        open_ = True
        try:
            while open_:
                open_ = self._read(socket.MSG_DONTWAIT, [])
        except BlockingIOError:
            pass
        except ConnectionError:
            open_ = False
        messages: list[Any] = []
        while found := self._next():
            messages += found
        return messages, open_

    def _read(self, flags: int, fds: list[int]) -> bool:
        space = socket.CMSG_SPACE(MOST_FDS * FD_SIZE)
        data, rights, _, _ = self.sock.recvmsg(1 << 16, space, flags | socket.MSG_CMSG_CLOEXEC)
        for _, _, body in rights:
            fds += struct.unpack(f"{len(body) // FD_SIZE}i", body)
        self._got += data
        return bool(data)

    def _next(self) -> list[Any]:
        if len(self._got) < LENGTH.size:
            return []
        end = LENGTH.size + LENGTH.unpack_from(self._got)[0]
        if len(self._got) < end:
            return []
        body = bytes(self._got[LENGTH.size : end])
        del self._got[:end]
        return [pickle.loads(body)]

    def close(self) -> None:
        """Close this end."""
        self.sock.close()


def pair() -> tuple[Line, Line]:
    """Make both ends of a line."""
    ours, theirs = socket.socketpair()
    return Line(ours), Line(theirs)


class Rank:
    """A rank as its fixtures see it.

    number, size: which of how many. timeout: seconds that the test has, 0 for no limit. backend: of
    its process group. store: the file where this meets, the same in all ranks. kept: this process
    runs other tests, too.
    """

    def __init__(self, request: dict[str, Any], line: Line, number: int | None = None) -> None:
        self.number = int(os.environ["RANK"]) if number is None else number
        self.size: int = request["nproc"]
        self.timeout: float = request["timeout"]
        self.backend: str = request["backend"]
        self.store: str = request["store"]
        self.kept: bool = request["method"] == "keep"
        self._line = line
        self._lock = threading.Lock()  # threads of a test may gather, and none may tear a message

    def tell(self, kind: str, value: Any) -> None:
        """Send a message. If nobody hears it, that is noticed elsewhere."""
        with self._lock:
            self._line.send_if_there((kind, value))

    def tell_done(self, left: dict[str, Any]) -> None:
        """Report that the test is over, and what it has left; wait until that is known.

        When the last rank has ended, so does everything below the ranks: nobody could name it.
        """
        try:
            self._ask("done", left)
        except RuntimeError:
            pass  # nobody is there, and this process ends anyway

    def _ask(self, kind: str, value: Any) -> Any:
        __tracebackhide__ = True
        with self._lock:
            try:
                self._line.send((kind, value))
                answer = self._line.receive()
            except OSError:
                answer = "the launcher of this test is gone"
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def gather(self, value: Any) -> list[Any]:
        """Give the values of all ranks, by rank."""
        __tracebackhide__ = True
        return [pickle.loads(each) for each in self._ask("gather", pickle.dumps(value))]

    def terminal(self) -> list[int]:
        """Ask for the terminal; gives its three descriptors, or nothing if another rank has it."""
        with self._lock:
            try:
                self._line.send(("terminal", None))
                return self._line.receive_with_fds()[1]
            except OSError:
                return []
