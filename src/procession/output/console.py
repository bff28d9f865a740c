"""Where lines are shown: a terminal, a pipe, a file, or an object that replaced `sys.stdout`.

Theory of operation. A console may stop reading at any time (Ctrl-S, a pager, a full pipe to a
stopped program), and a thread that is blocked in write(2) cannot be called back. So bytes are
written without blocking, and the waiting is done in poll(2), together with a descriptor by which
the waiting can be given up. O_NONBLOCK belongs to the open file description, which the launcher
shares with its shell and its ranks: setting it on descriptor 1 would make their writes fail.
Hence an open file description of our own, by opening /proc/self/fd/N again. What cannot be opened
again is written in a way that fits it: a regular file never blocks for long and must share its
offset, and the rest (sockets) gets small writes after poll(2) has found room.

An object that replaced `sys.stdout` (a test's capture, a notebook) wants to be called, even if it
has a `fileno()`: a notebook's leads to the terminal in which its server was started.

Rejected: a thread per console that may block (it cannot be ended, and what it wrote last is not
known), RWF_NOWAIT (terminals refuse it), and believing poll(2) alone for large writes (it finds
room for one byte and write(2) then blocks for the others).
"""

from __future__ import annotations

import errno
import os
import select
import stat
import threading
import time
from collections.abc import Callable

from procession.system.files import NO_ROOM, descriptor_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# poll(2) finds a terminal, or something else, writable if at least so many bytes fit.
_CAUTIOUS, _FIT = 512, 4096
# The master side of pseudo-terminals: to open it again makes a new terminal.
_PTMX = os.makedev(5, 2)
# A terminal can have room for one byte and refuse the two of a line end; look again after this.
_REFUSED_MS = 20
_CLOSE = 1.0  # seconds that a write has to end
_NO_READER = (errno.EPIPE, errno.ECONNRESET)
_NOBODY = (*_NO_READER, errno.EIO)  # EIO: of a terminal that was closed


class Console:
    """One place where bytes can be shown; made in the user's thread, written from any.

    stream: an object like `sys.stdout`, or None. It is flushed once, here, so that what the user
        printed before stands before what the ranks print; it is never closed.
    colour: whether colour sequences are understood and wanted there. NO_COLOR (not empty) says
        no, then FORCE_COLOR (neither empty nor 0) says yes, then it must be a terminal that is
        not TERM=dumb.
    on_quiet: called once, by whatever thread writes, when the reader of a pipe or socket is found
        to have gone. It must be quick, raise nothing, and not write here.
    terminal: whether it is one.
    place: equal for two consoles that are the same terminal, pipe, file or object.
    seen_by: called with all that is to be shown, before it is; by whatever thread writes.
    quiet: nothing is shown any more, because its reader has gone or it is broken. That is never
        an error: ranks go on, though nobody reads.
    fault: why something that was to be shown is lost, "" if nothing is: a full disk behind it, for
        example. That nobody reads any more is no fault.
    midline: the last byte that it took was not a newline.
    taken: how many bytes it has taken so far.

    A replaced object is called as it is: if its write() blocks, so does `write`.
    """

    def __init__(self, stream: Any, on_quiet: Callable[[], None] | None = None) -> None:
        self.quiet = stream is None
        self.seen_by: Callable[[bytes], None] | None = None
        self._on_quiet = on_quiet
        self.midline = False
        self.fault = ""
        self._stream: Any = stream
        self._fd = -1  # of an object that is called
        self._little: int | None = None  # bytes that are written at once, after a look for room
        self._closed = False
        self.taken = 0
        self._owed = b""  # of what `aside` was given
        self._lock = threading.Lock()
        self.place: tuple[object, ...] = ("object", id(stream))
        try:
            stream.flush()
        except Exception:
            pass  # a closed stream, or one without flush()
        fd = descriptor_of(stream)
        self.terminal = fd is not None and os.isatty(fd)
        self.colour = _wants_colour(stream)
        if fd is not None:
            self._open(fd)

    def _open(self, fd: int) -> None:
        try:
            found = os.fstat(fd)
            self.place = (found.st_dev, found.st_ino)
            file = stat.S_ISREG(found.st_mode)
            self._fd = -1 if file else _reopened(fd, found)
            if self._fd < 0:
                self._fd = os.dup(fd)
                self._little = None if file else _CAUTIOUS if os.isatty(fd) else _FIT
        except OSError:
            self.quiet = True

    def _put(self, data: memoryview) -> int:
        if self._little and not _wait((self._fd, select.POLLOUT), timeout=0):
            raise BlockingIOError
        return os.write(self._fd, data[: self._little])

    def write(
        self, data: bytes, *, abandon: int | None = None, timeout: float | None = None
    ) -> bool:
        """Show all of `data`, waiting for the console as long as it takes.

        abandon: a descriptor; when it becomes readable the waiting ends.
        timeout: seconds after which the waiting ends; 0 shows what can be shown at once.

        Returns False if it was given up: then some of `data` may have been shown, see `midline`.
        Never raises for a console that fails: it goes quiet, which counts as shown.
        """
        if self.seen_by is not None:
            self.seen_by(data)
        with self._lock:
            if self.quiet or self._closed or not data:
                return True
            if self._fd < 0:
                self._call(data)
                return True
            if self._owed and not self._pay(abandon, timeout):
                return False
            return self._write_all(data, abandon, timeout)

    def aside(self, data: bytes) -> None:
        """Show what leaves the cursor where it is, as far as the console takes it at once.

        What is left is shown before anything else that is written later. An object that replaced
        `sys.stdout`, or a console that is quiet, is not given it.
        """
        with self._lock:
            if not (self.quiet or self._closed or self._fd < 0):
                self._owed += data
                self._pay(None, 0.0)

    @property
    def owes(self) -> bool:
        """Whether a part of what `aside` was given is still to be shown."""
        return bool(self._owed)

    def _pay(self, abandon: int | None, timeout: float | None) -> bool:
        midline, before = self.midline, self.taken
        paid = self._write_all(self._owed, abandon, timeout)
        self._owed = b"" if paid else self._owed[self.taken - before :]
        self.midline = midline
        return paid

    def _write_all(self, data: bytes, abandon: int | None, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        view = memoryview(data)
        done = 0
        waited = False
        try:
            while done < len(view):
                try:
                    taken = self._put(view[done:])
                except BlockingIOError:
                    taken = 0
                except OSError as e:
                    # What a full disk did not take is lost, the next line may fit again.
                    self.quiet = e.errno not in NO_ROOM
                    if e.errno not in _NOBODY:
                        self.fault = self.fault or e.strerror or str(e)
                    if e.errno in _NO_READER and self._on_quiet is not None:
                        self._on_quiet()
                    return True
                done += taken
                self.taken += taken
                if done == len(view):
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                if waited and not taken:
                    # Found writable, yet refused: wait a little instead of asking in a tight loop.
                    found = _wait((abandon, select.POLLIN), timeout=_REFUSED_MS / 1000)
                else:
                    found = _wait(
                        (abandon, select.POLLIN), (self._fd, select.POLLOUT), timeout=left
                    )
                waited = True
                if abandon in found:
                    return False
            return True
        finally:
            if done:
                self.midline = data[done - 1] != 0x0A

    def _call(self, data: bytes) -> None:
        try:
            self._stream.write(data.decode(errors="replace"))
            self.midline = not data.endswith(b"\n")
            self.taken += len(data)
            flush = getattr(self._stream, "flush", None)
            if flush is not None:
                flush()
        except Exception:
            # An error of the user's object must not end the thread that follows ranks.
            self.quiet = True

    def close(self) -> None:
        """Close the descriptor that this console opened, unless a thread hangs in writing to it."""
        self._closed = True
        if self._fd >= 0 and self._lock.acquire(timeout=_CLOSE):
            os.close(self._fd)
            self._fd = -1
            self._lock.release()


def _wants_colour(stream: Any) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    try:
        return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
    except Exception:
        return False


def _reopened(fd: int, found: os.stat_result) -> int:
    """Open the pipe or terminal behind `fd` once more, non-blocking; -1 if it cannot be."""
    # Opening other character devices might do something to them. (Major 1: /dev/null.)
    known = os.isatty(fd) or os.major(found.st_rdev) == 1
    openable = stat.S_ISFIFO(found.st_mode) or (stat.S_ISCHR(found.st_mode) and known)
    if not openable or found.st_rdev == _PTMX:
        return -1
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return -1  # another user's terminal, no /proc, a pipe whose reader has gone


def _wait(*wanted: tuple[int | None, int], timeout: float | None) -> set[int | None]:
    """Wait for descriptors (None: not that one); give those with news, errors being news."""
    poll = select.poll()
    for fd, events in wanted:
        if fd is not None:
            poll.register(fd, events)
    return {fd for fd, _ in poll.poll(None if timeout is None else timeout * 1000)}
