"""Messages between pytest's process, the template, and ranks: pickles over private sockets."""

from __future__ import annotations

import array
import os
import pickle
import select
import signal
import socket
import struct
import time

from procession.pytest.processes import state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_FDS = 250  # beside one message; the kernel takes 253
LENGTH = struct.Struct("<Q")
LOOK = 2.0  # seconds between two looks whether the process at the other end was stopped


class Line:
    """One end of a stream socket that both ends have inherited."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._got = bytearray()
        self._pid = 0
        self._has_ended = False  # the process at the other end: nothing more is sent
        self._pidfd = -1

    def fileno(self) -> int:
        """Give the descriptor, for selectors."""
        return self.sock.fileno()

    def ends_with(self, pid: int) -> None:
        """Take the end of the process at the other end for that of the line.

        What it has forked may have a copy of its end, and live on. If somebody has stopped it
        (SIGSTOP) while something is waited for, it is killed: nobody would let it go on.
        """
        try:
            self._pid, self._pidfd = pid, os.pidfd_open(pid)
        except ProcessLookupError:
            self._has_ended = True
        except OSError:
            pass  # refused: then the line must do

    def kill(self) -> None:
        """Kill the process at the other end, if it is known."""
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def send(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        """Send a message, with descriptors beside it. Raises OSError if the other end is gone."""
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        data = memoryview(LENGTH.pack(len(body)) + body)
        if fds:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            data = data[self.sock.sendmsg([data], rights) :]
        self.sock.sendall(data)

    def send_if_there(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        """Send a message. If the other end is gone, that is noticed elsewhere."""
        try:
            self.send(message, fds)
        except OSError:
            pass

    def receive(self) -> Any:
        """Wait for the next message. Raises EOFError if the other end is gone."""
        return self.receive_with_fds()[0]

    def receive_with_fds(self) -> tuple[Any, list[int]]:
        """Wait for the next message, and the descriptors that came beside it. Raises EOFError."""
        fds = array.array("i")
        while not (found := self._next()):
            if self._pidfd >= 0 and not self._comes():
                raise EOFError
            try:
                open_ = self._read(socket.MSG_DONTWAIT * self._has_ended, fds)
            except BlockingIOError:
                open_ = False
            if not open_:
                raise EOFError
        return found[0], list(fds)

    def arrived(self) -> tuple[list[Any], bool]:
        """Read what there is without waiting; gives the messages, and whether more may come."""
        open_ = True
        try:
            while open_:
                open_ = self._read(socket.MSG_DONTWAIT, array.array("i"))
        except BlockingIOError:
            pass
        except ConnectionError:
            open_ = False
        messages: list[Any] = []
        while found := self._next():
            messages += found
        return messages, open_

    def _read(self, flags: int, fds: array.array[int]) -> bool:
        space = socket.CMSG_SPACE(MOST_FDS * fds.itemsize)
        data, rights, _, _ = self.sock.recvmsg(1 << 16, space, flags)
        for level, kind, body in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
        self._got += data
        return bool(data)

    def _comes(self) -> bool:
        """Wait until something comes, or the end of the line; False if the process has ended.

        Raises TimeoutError, as `recv` does.
        """
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.register(self._pidfd, select.POLLIN)
        timeout = self.sock.gettimeout()
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK if ends is None else min(LOOK, max(0.0, ends - time.monotonic()))
            ready = poll.poll(left * 1000)
            if ready:
                return any(fd == self.sock.fileno() for fd, _ in ready)
            if state_of(self._pid) == "T":
                self.kill()
            elif ends is not None and time.monotonic() >= ends:
                raise TimeoutError

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
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def pair() -> tuple[Line, Line]:
    """Make both ends of a line."""
    ours, theirs = socket.socketpair()
    return Line(ours), Line(theirs)
