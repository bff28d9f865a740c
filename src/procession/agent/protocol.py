"""Messages between launcher and agent: small tuples, and descriptors beside them.

Theory of operation. Both ends are processes of the same interpreter, joined by a private stream
socket, so `marshal` is enough to encode a message and costs no import. A frame is a header (length
of the body, number of descriptors), the body, and the descriptors as SCM_RIGHTS; as the kernel
takes at most 253 of them at once (SCM_MAX_FD in include/net/scm.h), a frame with more is sent in
several pieces. Descriptors keep their order, so a frame owns the next ones that arrive. Neither end
waits for the other: what a socket does not take is kept until it does.

From the launcher (`at` is in nanoseconds of the monotonic clock):
    ("preload", dict)              import modules, once, before the first attempt; see `wanted`
    ("rules", dict) + board        a group begins, see `run`; the board is a descriptor
    ("begin", dict)                what is common to the ranks of an attempt, see `worker.setup`
    ("spawn", [dict]) + descriptors   start ranks; they share the descriptors
    ("no start", rank, attempt, stage, errno, text)   what this rank needs could not be made
    ("stop", dict)                 end the group; see `StopRequest`
    ("impatience",)                a group that has failed, or fails, is ended at once
    ("hung", rank, at, fresh)      it hangs; whether the stacks have just been taken
    ("signal", number, [rank], only_caught, at)   signal these processes, if they began before `at`
    ("suspend",)                   stop all ranks, and all clocks
    ("resume",)                    let them go on
    ("hold",)                      let all clocks stand still: a rank is debugged
    ("go on",)                     let them go on
    ("look", which, seconds)       take the stacks of all ranks
    ("answer", rank, attempt, again, delay)   to "ask"; rank -1 for the group; delay: seconds
    ("ping", which)                answer
    ("release",)                   a fork of the launcher: no more ranks; hold nothing of its
    ("share", what)                a fork of the launcher: make what ranks are to share
    ("idle", seconds)              the group is over; go if nothing comes for so long (None: stay)
    ("keep", dict) + directory     the same as "idle"; go on as a template, see `template`
To a template, once on each connection:
    ("look",)                      say what it is
    ("take", dict, facts, mark)    work for this launcher from now on; dict: as in "preload"
From the agent:
    ("reports", [message]) + descriptors   several of these, in order:
    ("preloaded", fault, [module], culprit)   why ranks are not forked, or ""; what could not be
                                 imported; the module whose import that was, or ""
    ("sharing", name)              the shared set-up begins: nothing is heard until it has ended
    ("shared", fault)              it has ended; fault as above
    ("event", ...)                 an event of the lifecycle, as `rules.messages.plain` writes it;
                                   what follows says more about the next one of them
    ("process", rank, pid, at, -1 unless its pidfd is the next of the descriptors)
    ("fault", rank, stage, errno, text)   it did not reach its program
    ("piece", rank, bytes)         a part of the body of a large frame that it sent
    ("frame", rank, kind, at, body)   a frame that it sent; body: None if it came in pieces
    ("file", rank, kind, at, size)   the same, in a memory file, the next of the descriptors
    ("debug", rank)                it is debugged; its end of the socket is the next descriptor
    ("refused", rank, why)         what it sent is not believed, nor what follows
    ("signalled", number, [rank], at)   sent to these; the others were gone already
    ("gone", rank, wait status, cpu seconds, peak memory in bytes, at, doubt, torn)
    ("limits", signal, at)         by which ranks are stopped; when they get SIGKILL, or None
    ("ask", rank, attempt)         does it start again? rank: -1 for the group
    ("stacks", which, attempt, [tuple])   of `Taken`; which: 0 before a stop signal
    ("suspended",)
    ("pong", which)
    ("kept", fault)                what is in the way of that, or ""
    ("template", dict)             answers "look"
    ("taken", distance, fault)     how much is in the way of that, and what; or 0 and ""
    ("crashed", text)              the agent itself failed; it ends everything and goes

Rejected: pickle and JSON (imports of 3 to 8 ms in a process whose start is felt), and sequenced
packets (a job with a large environment does not fit into one).
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import errno
import marshal
import os
import select
import struct
import time

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable
    from typing import Any

    Message = tuple[Any, ...]
else:
    from _collections import deque  # `collections` around it takes 1 ms to import

FD_SIZE = struct.calcsize("i")
HEADER = struct.Struct("<II")
FDS_AT_ONCE = 250
TAKEN_SOON = 0.001  # seconds
BLOCK = 1 << 16
STACK_SECONDS = 0.15  # by which stacks may delay the first stop signal


def encode(message: Message, fds: list[int]) -> bytes:
    """Give the bytes of a frame; it is never too short to carry its descriptors in pieces."""
    body = marshal.dumps(message)
    return HEADER.pack(len(body), len(fds)) + body


def pieces(frame: bytes, fds: list[int]) -> list[tuple[bytes, list[int]]]:
    """Cut a frame so that each piece carries no more descriptors than the kernel takes at once."""
    cuts: list[tuple[bytes, list[int]]] = []
    while len(fds) > FDS_AT_ONCE:
        cuts.append((frame[:1], fds[:FDS_AT_ONCE]))
        frame, fds = frame[1:], fds[FDS_AT_ONCE:]
    return [*cuts, (frame, fds)]


def ancillary(fds: list[int]) -> list[tuple[int, int, bytes]]:
    """Give the ancillary data for `sendmsg`."""
    if not fds:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]


def passed(control: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Give the descriptors in the ancillary data that `recvmsg` gave."""
    rights = socket.SOL_SOCKET, socket.SCM_RIGHTS
    fds: list[int] = []
    for level, kind, raw in control:
        if (level, kind) == rights:
            fds += struct.unpack_from(f"{len(raw) // FD_SIZE}i", raw)
    return fds


class Sender:
    """Sends frames on a socket that does not block; what the socket does not take waits.

    lost: nobody is at the other end any more. size, files: the bytes and descriptors that wait.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # Parts of frames, the descriptors of each, and those to be closed when it was sent.
        self._queue: deque[tuple[bytes | memoryview, list[int], list[int]]] = deque()
        self.lost = False
        self.size = self.files = 0

    def send(self, message: Message, fds: list[int], close: list[int]) -> None:
        """Send a message with descriptors, now or when the socket takes it; then close `close`."""
        cuts = pieces(encode(message, fds), fds)
        for data, some in cuts[:-1]:
            self._add(data, some, [])
        self._add(*cuts[-1], close)
        self.flush()

    def _add(self, data: bytes, fds: list[int], close: list[int]) -> None:
        self._queue.append((data, fds, close))
        self.size += len(data)
        self.files += len(fds)

    @property
    def waiting(self) -> bool:
        """Whether something waits to be sent: call `flush` when the socket can be written."""
        return bool(self._queue)

    def flush(self) -> None:
        """Send what the socket takes."""
        while self._queue:
            data, fds, close = self._queue[0]
            try:
                sent = self._sock.sendmsg([data], ancillary(fds), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as e:
                if e.errno == errno.ETOOMANYREFS:  # this user's descriptors that are on their way
                    time.sleep(TAKEN_SOON)  # the socket can be written: this is called at once
                    return
                self.lost = True
                self.drop()
                return
            self.size -= sent
            self.files -= len(fds)
            if sent < len(data):
                self._queue[0] = memoryview(data)[sent:], [], close
            else:
                self._queue.popleft()
                close_all(close)

    def drop(self) -> None:
        """Forget what waits: there is nobody to send it to."""
        while self._queue:
            close_all(self._queue.popleft()[2])
        self.size = self.files = 0


def is_readable(fd: int, milliseconds: int = 0) -> bool:
    """Whether a descriptor can be read, or becomes so within this time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(milliseconds))


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors, whichever of them are open."""
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass  # -1, or the listing's own


class Receiver:
    """Puts frames together from what arrives on a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = bytearray()
        self._fds: list[int] = []
        self.ended = False

    def receive(self) -> list[tuple[Message, list[int]]]:
        """Read once and return the frames that are complete; `ended` is set at end of file.

        The descriptors of a frame belong to the caller; they are closed on exec.
        """
        room = socket.CMSG_SPACE(FDS_AT_ONCE * FD_SIZE)
        try:
            data, control, flags, _ = self._sock.recvmsg(BLOCK, room, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return []
        except ConnectionError:
            data, control, flags = b"", [], 0
        self._fds += passed(control)
        self._data += data
        if flags & socket.MSG_CTRUNC and len(self._data) >= HEADER.size:
            # No room for more descriptors here: the missing ones are this frame's, not the next's.
            count = HEADER.unpack_from(self._data)[1]
            self._fds += [-1] * (count - len(self._fds))
        self.ended = not data
        return self._frames()

    def _frames(self) -> list[tuple[Message, list[int]]]:
        frames: list[tuple[Message, list[int]]] = []
        while len(self._data) >= HEADER.size:
            length, count = HEADER.unpack_from(self._data)
            end = HEADER.size + length
            if len(self._data) < end:
                break
            if len(self._fds) < count:
                # The kernel drops descriptors that the receiver has no room for (MSG_CTRUNC).
                self._fds += [-1] * (count - len(self._fds))
            message = marshal.loads(bytes(memoryview(self._data)[HEADER.size : end]))
            del self._data[:end]
            fds, self._fds = self._fds[:count], self._fds[count:]
            frames.append((message, fds))
        return frames

    def close(self) -> None:
        """Close descriptors that belong to no complete frame."""
        for fd in self._fds:
            if fd >= 0:
                os.close(fd)
        self._fds.clear()
