"""What a rank reports to its agent: frames on its outcome channel, before it begins to exit.

A frame is a header (kind, length of the body, time in nanoseconds of the monotonic clock) and a
body. The kinds:
    D  done: the program came to its end, or called `sys.exit(0)`; no body
    V  value: the body is the pickled value of a function
    F  failed: the body is what is known at once, see `failing`; an E follows, unless the rank dies
    E  error: the body is JSON, see `description.describe`
    B  breakpoint: a socket is passed beside it; see `worker.debugging`
The time is in the header, so that it is known before a large value has arrived. A failure is
reported twice because a description takes time, in which the rank may be killed, and runs code of
the user's exception, which may do anything. The channel is a pair of connected sockets. It belongs
to the rank's first process: a child that it forks does not write there.

A large body is in a memory file, sealed and of the length that the header says; its descriptor is
passed beside the header, whose kind is a small letter then. Nobody copies it. Where there can be no
such file (no room for it, a limit of the size of files), the body follows the header.

A rank that has reported its failure waits before it begins to exit. Its exit ends its connections,
and ranks that only waited for it would fail as well. The agent answers when it has taken the
stacks of the others and has sent them the stop signal: it ends its direction of the channel. The
end of the agent looks the same. Nobody else answers, so the wait is short.

If a rank dies without a report, the agent learns it from the end of the channel. That should
come before the rank's connections end, because then its peers fail, too. Linux closes the
descriptors of a dead process from the highest number to the lowest, and other processes may run in
between; so the channel gets a high number.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from select import POLLIN, poll

HEADER = struct.Struct("<cQq")
DONE, VALUE, FAILED, ERROR, DEBUG = b"D", b"V", b"F", b"E", b"B"
# The largest bodies in bytes that a launcher believes. An error of a function may be larger, since
# it holds pickles of exceptions.
LARGEST_FAILED = 64 << 10
INLINE = 64 << 10  # bytes of the largest body that is not in a file
LARGEST_ERROR = 4 << 20

SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

# The lowest number for a channel: above what programs open, and below the usual limit of 1024.
# The others are for lower limits.
HIGH_FDS = (1000, 250, 60)
ANSWER_MS = 200  # milliseconds for the launcher to see to the other ranks

# The exit code that this process has announced to its launcher, because it failed. Exit handlers
# look at it, so that they do not wait for other ranks.
announced: int | None = None

_channel: OutcomeChannel | None = None  # that of this process


def pass_debugger(fd: int) -> str:
    """Pass a socket for who debugs this rank; gives why that cannot be, "" if it is done."""
    if _channel is None or not _channel.pass_on(DEBUG, fd):
        return "it is a child process of a rank (for a DataLoader, set num_workers=0)"
    return ""


TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]


class OutcomeChannel:
    """The rank's end of its outcome channel.

    fd: its descriptor, which moves to a high number. error_file: a file into which the description
    of a failure is also written, unless it exists; "" for none.
    """

    def __init__(self, fd: int, error_file: str = "") -> None:
        self._fd = _moved_up(fd)
        self._pid = os.getpid()
        self._identity = _identity(self._fd)
        self._error_file = error_file
        global _channel
        _channel = self

    def pass_on(self, kind: bytes, fd: int) -> bool:
        """Pass a descriptor; gives whether that was done."""
        return self._is_ours and self._send_fd(HEADER.pack(kind, 0, time.monotonic_ns()), fd)

    def done(self) -> None:
        """Report that the program came to its end."""
        self._send(DONE, b"", time.monotonic_ns())
        self._close()

    def value(self, value: object) -> bool:
        """Send the value of a function; False (and an error is sent) if it cannot be pickled."""
        from procession.worker.description import encode_value, text_of, type_name

        at = time.monotonic_ns()
        try:
            body = encode_value(value)
        except Exception as e:
            kind, cls = "unpicklable", type_name(type(value))
            self.failing(kind, cls, at=at)
            message = f"{type_name(type(e))}: {text_of(e)}"
            self.error({"kind": kind, "type": cls, "message": message})
            return False
        self._send(VALUE, body, at)
        self._close()
        return True

    def failing(self, kind: str, cls: str, code: int = 1, at: int | None = None) -> None:
        """Report that the program failed: what is known without running code of the exception.

        kind: as in `describe`, or "exit" or "unpicklable". cls: the name of the class. code: the
        exit code that the rank is going to have. at: when, if it was not now.
        """
        global announced
        announced = code
        body = f"{kind}\0{code}\0{cls}".encode(errors="replace")
        self._send(FAILED, body[:LARGEST_FAILED], time.monotonic_ns() if at is None else at)

    def error(self, record: Record) -> None:
        """Report how the program failed, and wait until this process may exit."""
        from procession.worker import description

        self._send(ERROR, description.encoded(record), time.monotonic_ns())
        if self._error_file and record.get("traceback"):
            description.write_error_file(self._error_file, record)
        if self._is_ours:
            answer = poll()
            answer.register(self._fd, POLLIN)
            answer.poll(ANSWER_MS)
        self._close()

    @property
    def _is_ours(self) -> bool:
        if os.getpid() != self._pid or self._fd < 0:
            return False
        # A program that closes descriptors that it did not open may own this number by now.
        if self._identity is None or _identity(self._fd) != self._identity:
            self._fd = -1
        return self._fd >= 0

    def _send(self, kind: bytes, body: bytes, at: int) -> None:
        if not self._is_ours:
            return
        os.set_blocking(self._fd, True)  # the program may have changed that
        if len(body) > INLINE and self._send_file(kind, body, at):
            return
        view = memoryview(HEADER.pack(kind, len(body), at) + body)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            pass  # the launcher is gone, and so is this rank in a moment

    def _send_file(self, kind: bytes, body: bytes, at: int) -> bool:
        """Send a frame whose body is in a memory file; False if that cannot be done."""
        fd = -1
        try:
            fd = os.memfd_create("procession-value", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            view = memoryview(body)
            while view:
                view = view[os.write(fd, view) :]
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
            return self._send_fd(HEADER.pack(kind.lower(), len(body), at), fd)
        except (OSError, MemoryError):
            return False
        finally:
            if fd >= 0:
                os.close(fd)

    def _send_fd(self, header: bytes, fd: int) -> bool:
        import _socket as socket

        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
        channel = socket.socket(fileno=os.dup(self._fd))
        try:
            return channel.sendmsg([header], passed) == len(header)
        except OSError:
            return False
        finally:
            channel.close()

    def _close(self) -> None:
        if os.getpid() == self._pid and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _identity(fd: int) -> tuple[int, int] | None:
    """Tell what is open under a number; None if nothing is."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None  # the program has closed it
    return found.st_dev, found.st_ino


def _moved_up(fd: int) -> int:
    """Give a descriptor a high number, and close the one that it had."""
    for least in HIGH_FDS:
        try:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            continue
        os.close(fd)
        return high
    os.set_inheritable(fd, False)
    return fd
