"""Messages between launcher and forkserver: small tuples, and descriptors beside them.

Theory of operation. Both ends are processes of the same interpreter, joined by a private stream
socket, so `marshal` is enough to encode a message and costs no import. A frame is a header (length
of the body, number of descriptors), the body, and the descriptors as SCM_RIGHTS; as the kernel
takes at most 253 of them at once (SCM_MAX_FD in include/net/scm.h), a frame with more is sent in
several pieces. Descriptors keep their order, so a frame owns the next ones that arrive.

From the launcher:
    ("preload", dict)              import modules, once, before the first attempt
    ("begin", dict)                what is common to the ranks of an attempt, see `worker.setup`
    ("spawn", [dict]) + descriptors   start ranks; they share the descriptors
    ("cancel",)                    start none of those that have not been started
    ("signal", number, [rank])     signal the processes of these ranks
    ("sweep", number, which)       signal whatever is left, and say when nothing is
    ("clean", rank)                kill what this rank, which has ended, left in its session
    ("do", which, by, message)     obey that message and say so, but not later than `by`, if not 0
    ("release",)                   a fork of the launcher: no more ranks; hold nothing of its
    ("idle", seconds)              the group is over; go if nothing comes for so long (None: stay)
    ("keep", dict) + pidfd         the same as "idle"; work for a keeper from now on, see `kept`
    ("take", dict) + pidfd         work for another launcher from now on
From the forkserver (`at` is in nanoseconds of the monotonic clock):
    ("reports", [message]) + descriptors   several of these, in order:
    ("preloaded", fault, [module], module)   why ranks are not forked, or ""; what could not be
                                   imported; whose import was at fault, or ""
    ("sharing", name)              the shared set-up begins: nothing is heard until it has ended
    ("shared", fault)              it has ended; fault as above
    ("spawned", rank, pid, at, -1 unless its pidfd is the next of the descriptors)
                                   what follows of the same process has this time as `began`
    ("failed", rank, began, stage, errno, text, at)   it did not reach its program, and is gone;
                                   began: 0 if there was no process
    ("cancelled", [rank], at)      never started, and will not be
    ("ready", rank, began, at)
    ("signalled", number, [(rank, began)], at)   sent to these; the others were gone already
    ("exited", rank, began, wait status, cpu seconds, peak memory in bytes, at)
    ("swept", which)               of the last sweep that was asked for
    ("done", which)                obeyed
    ("late", which)                not obeyed: it was too late, and the launcher has acted by itself
    ("kept", fault, facts)         what is in the way of that, or ""; what this process is
    ("taken", fault, facts)        the same
    ("crashed", text)              the forkserver itself failed; it ends everything and goes

Rejected: pickle and JSON (imports of 3 to 8 ms in a process whose start is felt), and sequenced
packets (a job with a large environment does not fit into one).
"""

from __future__ import annotations

import _socket as socket  # the module `socket` around it takes 2 ms to import
import marshal
import os
import struct

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from typing import Any

    Message = tuple[Any, ...]

FD_SIZE = struct.calcsize("i")
HEADER = struct.Struct("<II")
FDS_AT_ONCE = 250
BLOCK = 1 << 16


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


def send(sock: socket.socket, message: Message, fds: list[int] | None = None) -> None:
    """Send a frame on a blocking socket. Raises OSError."""
    for piece, some in pieces(encode(message, fds or []), fds or []):
        sent = sock.sendmsg([piece], ancillary(some))
        if sent < len(piece):
            sock.sendall(piece[sent:])


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
        for level, kind, raw in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._fds += struct.unpack_from(f"{len(raw) // FD_SIZE}i", raw)
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
