"""What goes over the keeper's socket: one JSON object in each line, and a descriptor beside it.

A client asks, and waits for the answer before it asks again:

    {"warm": 1, "ask": "list"}                   {"kept": [...]}, each as in `shelf`
    {"warm": 1, "ask": "keep", "kept": {...}}    {"id": 7}; beside it, the socket of an agent
    {"warm": 1, "ask": "take", "id": 7}          {"kept": {...}}, and that socket; {} if it is gone
    {"warm": 1, "ask": "stop"}                   {"ended": 2}

An answer {"error": text} says why not. Both ends check that the other one is a process of the same
user (SO_PEERCRED).
"""

from __future__ import annotations

import _socket as socket
import array
import json
import os
import struct
from typing import Any, cast

VERSION = 1
MOST_BYTES = 4 << 20  # of a line
MOST_FDS = 4
_INT = array.array("i").itemsize


class Broken(Exception):
    """The other end does not keep to this protocol. The text is one line."""


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Give pid and user of the other end; the pid is 0 if it cannot be seen from here."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return pid, uid


def encode(fields: dict[str, Any]) -> bytes:
    """Write one line."""
    return json.dumps({"warm": VERSION, **fields}).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Read one line. Raises Broken."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise Broken("it does not speak JSON") from None
    if not isinstance(found, dict):
        raise Broken("it does not speak in JSON objects")
    said = cast("dict[str, Any]", found)
    if said.pop("warm", None) != VERSION:
        raise Broken("it is of another version of procession")
    return said


def send(sock: socket.socket, fields: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one line. Raises OSError, also if the other end does not take it in time."""
    data = encode(fields)
    ancillary: list[tuple[int, int, bytes]] = []
    if fds:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]
    sent = sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
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

        Raises Broken, and OSError.
        """
        room = socket.CMSG_SPACE(MOST_FDS * _INT)
        data, control, _, _ = self._sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(raw[: len(raw) - len(raw) % _INT])
                self._fds += fds.tolist()
        self.ended = not data
        before = len(self._data)
        self._data += data
        at = self._data.find(b"\n", before)  # one line at a time: there is none before
        if at < 0 and len(self._data) > MOST_BYTES:
            raise Broken("it sends a line without an end")
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
