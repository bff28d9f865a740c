"""The launcher's end of a forkserver: start it, tell it, hear it, and see it go.

Nothing here blocks on the forkserver: what cannot be sent at once waits in a queue until the socket
takes it, so that launcher and forkserver cannot wait for each other.
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Mapping

from procession.forkserver import boot, protocol
from procession.system.descriptors import fill_standard
from procession.values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

JOBS_AT_ONCE, FDS_AT_ONCE = 32, 64  # in one message: the forkserver begins with it the sooner
GOING_TIME = 10.0  # seconds that a forkserver may take to end what is below it, and go


class Jobs:
    """Ranks to be asked for in one message, with the descriptors that they share.

    close: descriptors to be closed when the message was sent.
    """

    def __init__(self) -> None:
        self.close: list[int] = []
        self._jobs: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}

    def place(self, fd: int) -> int:
        """Give the place of a descriptor among those of the message."""
        return self._places.setdefault(fd, len(self._places))

    def add(self, job: dict[str, Any]) -> None:
        """Ask for one more rank; see `worker.setup`."""
        self._jobs.append(job)

    @property
    def full(self) -> bool:
        """Whether the next rank is for another message."""
        return len(self._jobs) >= JOBS_AT_ONCE or len(self._places) >= FDS_AT_ONCE

    def send(self, server: ForkServer) -> None:
        """Send the message, if it asks for anything."""
        if self._jobs:
            server.send(("spawn", self._jobs), list(self._places), self.close)
        else:
            self.drop()

    def drop(self) -> None:
        """Ask for nothing."""
        _close(self.close)
        self.close = []


class _Waiting(Record):
    """A frame, or the rest of one, that the socket has not taken yet."""

    message: protocol.Message
    parts: deque[tuple[bytes, list[int]]]
    close: list[int]
    begun: bool = False


class ForkServer:
    """A running forkserver. `start` or `fork` make one."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.pid = pid
        self._sock = sock
        self._receiver = protocol.Receiver(sock)
        self._queue: deque[_Waiting] = deque()
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:  # no descriptor left, or already gone
            self._pidfd = -1
        self.lost = False

    @classmethod
    def start(cls, env: Mapping[str, str] | None = None) -> ForkServer:
        """Start one by exec. env: its environment, this process's if None. Raises OSError."""
        return cls.of(boot.start(os.environ if env is None else env))

    @classmethod
    def of(cls, started: boot.Started) -> ForkServer:
        """Take hold of one that was started."""
        return cls(started.pid, started.sock)

    @classmethod
    def fork(cls, live: Any, mask: set[Any] | None = None) -> ForkServer:
        """Start one by forking this process, with what its ranks call in memory.

        mask: the signals that are blocked in the ranks, this thread's if None. Raises OSError.
        """
        filled = fill_standard()  # which the child makes anew; nothing else may have their numbers
        try:
            return cls._forked(live, mask)
        finally:
            for fd in filled:
                os.close(fd)

    @classmethod
    def _forked(cls, live: Any, mask: set[Any] | None) -> ForkServer:
        ours, theirs = socket.socketpair()
        launcher = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()
        from procession.forkserver.server import main_forked

        # A signal that comes now is the launcher's, not also the child's.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if not pid:
                ours.close()
                main_forked(theirs, launcher, live, before if mask is None else mask)
        except BaseException:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        return cls(pid, ours)

    # -- talk

    def fileno(self) -> int:
        """Give the socket's descriptor, for epoll."""
        return self._sock.fileno()

    def send(self, message: protocol.Message, fds: list[int], close: list[int]) -> None:
        """Send a message with descriptors, now or when the socket takes it; then close `close`."""
        parts = deque(protocol.pieces(protocol.encode(message, fds), fds))
        self._queue.append(_Waiting(message, parts, close))
        self.flush()

    @property
    def waiting(self) -> bool:
        """Whether something waits to be sent: call `flush` when the socket can be written."""
        return bool(self._queue)

    def flush(self) -> None:
        """Send what the socket takes."""
        while self._queue:
            frame = self._queue[0]
            data, fds = frame.parts[0]
            try:
                sent = self._sock.sendmsg([data], protocol.ancillary(fds), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self.lost = True
                self.drop_unsent()
                return
            frame.begun = True
            frame.parts.popleft()
            if sent < len(data):
                frame.parts.appendleft((data[sent:], []))
            elif not frame.parts:
                self._queue.popleft()
                _close(frame.close)

    def drop_unsent(self) -> list[protocol.Message]:
        """Forget the messages of which nothing was sent yet, and return them."""
        kept = [f for f in self._queue if f.begun and not self.lost]
        dropped = [f for f in self._queue if f not in kept]
        for frame in dropped:
            _close(frame.close)
        self._queue = deque(kept)
        return [f.message for f in dropped]

    def receive(self) -> list[tuple[list[protocol.Message], list[int]]]:
        """Read what there is: messages, and the descriptors that go with them.

        `lost` is set if the forkserver is gone.
        """
        frames = self._receiver.receive()
        self.lost = self.lost or self._receiver.ended
        return [(told, fds) for (_, told), fds in frames]

    # -- end

    def wake(self) -> None:
        """Let it go on if somebody stopped it (SIGSTOP): it has something to do."""
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)
        except OSError:
            pass  # gone; whoever reads from it sees that

    def abandon(self) -> None:
        """Close this process's descriptors and forget it: after a fork, in the child."""
        self.lost = True
        self.drop_unsent()
        self._receiver.close()
        self._sock.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def close(self, timeout: float = GOING_TIME) -> bool:
        """Let it end everything below it and go; False if it is not gone within `timeout` seconds.

        A forkserver that does not go is killed; its ranks then get their parent-death signal.
        """
        self.lost = True
        self.drop_unsent()
        self._receiver.close()
        self._sock.close()
        if self._pidfd < 0:
            return _wait(self.pid)
        self.wake()
        gone = self._wait_gone(timeout)
        if not gone:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except OSError:
                pass
            self._wait_gone(1.0)
        os.close(self._pidfd)
        self._pidfd = -1
        return gone

    def _wait_gone(self, timeout: float) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(timeout * 1000):
            return False
        try:
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError:
            pass  # the user's own waitpid(-1) took it
        return True


def _wait(pid: int) -> bool:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    return True


def _close(fds: list[int]) -> None:
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass
