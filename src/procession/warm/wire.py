"""What goes over the keeper's socket: one JSON object in each line, and a descriptor beside it.

A client asks, and waits for the answer before it asks again:

    {"warm": 1, "ask": "list"}                   {"kept": [...]}, each with `age` and `memory`
    {"warm": 1, "ask": "keep", "kept": {...}}    {}; beside the question, the socket of an agent
    {"warm": 1, "ask": "take", "pid": 7}         {"kept": {...}}, and that socket; {} if it is gone
    {"warm": 1, "ask": "stop"}                   {"ended": 2}

An answer {"error": text} says why not. Both ends check that the other one is a process of the same
user (SO_PEERCRED). A kept agent is described by its launcher, so that another launcher can tell
whether it fits:

    pid, began       the process
    key              how its interpreter was started, as a text
    modules          what it has imported, in order
    reads, seen      the variables that these read; a digest of the values that they had
    path, cwd        where modules were looked for
    facts            what it has inherited, see `system.facts`
    uses             how many runs it has served
    seconds          how long it is kept without being used
    most, most_memory   how many may be kept, and how many bytes, as its launcher says
"""

from __future__ import annotations

import _socket as socket
import json
import os
import struct
from collections.abc import Sequence
from typing import Any, cast

from procession.agent.protocol import FD_SIZE, ancillary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

VERSION = 1
MOST_BYTES = 4 << 20  # of a line
MOST_FDS = 4
FIELDS = frozenset(
    ("pid", "began", "key", "modules", "reads", "seen", "path", "cwd", "facts", "uses", "seconds",
     "most", "most_memory")
)  # fmt: skip


class Unusable(Exception):
    """The other end does not keep to this protocol, or is not ours. The text is one line."""


def describes(kept: object) -> TypeGuard[dict[str, Any]]:
    """Whether this describes a kept agent: all fields are there."""
    return isinstance(kept, dict) and cast("dict[str, Any]", kept).keys() >= FIELDS


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Give pid and user of the other end; the pid is 0 if it cannot be seen from here."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return pid, uid


def decode(line: bytes) -> dict[str, Any]:
    """Read one line. Raises Unusable."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise Unusable("it does not speak JSON") from None
    if not isinstance(found, dict):
        raise Unusable("it does not speak in JSON objects")
    said = cast("dict[str, Any]", found)
    if said.pop("warm", None) != VERSION:
        raise Unusable("it is of another version of procession")
    return said


def send(sock: socket.socket, fields: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one line. Raises OSError, also if the other end does not take it in time."""
    data = json.dumps({"warm": VERSION, **fields}).encode() + b"\n"
    sent = sock.sendmsg([data], ancillary([*fds]), socket.MSG_NOSIGNAL)
    if sent < len(data):
        sock.sendall(data[sent:], socket.MSG_NOSIGNAL)


class Inbox:
    """Puts lines together from what arrives. ended: the other end has hung up."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = bytearray()
        self._fds: list[int] = []
        self.ended = False

    def read(self) -> tuple[dict[str, Any], list[int]] | None:
        """Read once; gives a line and its descriptors, which belong to the caller, if it is there.

        Raises Unusable, and OSError.
        """
        room = socket.CMSG_SPACE(MOST_FDS * FD_SIZE)
        data, control, _, _ = self._sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._fds += struct.unpack_from(f"{len(raw) // FD_SIZE}i", raw)
        self.ended = not data
        before = len(self._data)
        self._data += data
        at = self._data.find(b"\n", before)  # one line at a time: there is none before
        if at < 0 and len(self._data) > MOST_BYTES:
            raise Unusable("it sends a line without an end")
        if at < 0:
            return None
        line = bytes(self._data[:at])
        self._data.clear()  # what comes after it was not asked for
        fields = decode(line)
        fds, self._fds = self._fds, []
        return fields, fds

    def close(self) -> None:
        """Close descriptors that belong to no line."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
