"""Authenticated messages between the driver of a job and its agents. Pure: bytes in, bytes out.

Theory of operation. Driver and agent share a key, which travelled through the engine. Each begins
with an opening: a magic word with the version, and a nonce. From the key, both nonces and the
direction comes a key for each direction, and every frame carries a MAC of its number and its body
by it. So whoever can send one good frame has the key, and nothing can be replayed, left out, turned
round or put in from another connection. No further step is needed: the first frame of each side is
its proof. Until it has come, a frame must be small.

    opening: 8 bytes magic, 32 bytes nonce
    frame:   length of the body (4 bytes), HMAC-SHA256 of number (8 bytes) and body, body
    body:    length of the fields (4 bytes), fields (a JSON object with "kind"), blob

Nothing is encrypted: who can listen on the network between nodes can read what ranks print, as with
torch's own traffic.

Rejected: `multiprocessing.connection` (it proves the key once, with MD5 before Python 3.12, then
nothing protects what follows; and it blocks); TLS (certificates for nodes that nobody knows before;
with a shared key it needs Python 3.13).
"""

from __future__ import annotations

import hmac
import json
import os
import struct

from procession.typed import cast
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Fields = dict[str, Any]
    Side = Literal["driver", "agent"]

MAGIC = b"PRCSSN\x00\x01"
NONCE_BYTES = 32
MAC_BYTES = 32
KEY_BYTES = 32
SMALL = 64 << 10  # bytes of a first frame
LARGE = 256 << 10  # bytes of a blob that is sent by itself
LARGEST = (1 << 32) - 1

_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!Q")


class WireError(Exception):
    """What came is not from a peer with our key; nothing more may be read from it."""


class Message(Value):
    """What one side tells the other. blob: bytes that are no text, such as a pickle."""

    kind: str
    fields: Fields
    blob: bytes = b""


class Wire:
    """One connection, seen from one side.

    opening: what to send first. ready: whether `pack` can be used: the peer's opening has come.
    trusted: whether the peer has proved that it has the key.
    """

    def __init__(self, key: bytes, side: Side, nonce: bytes | None = None) -> None:
        self._key = key
        self._side: Side = side
        self._nonce = os.urandom(NONCE_BYTES) if nonce is None else nonce
        self.opening = MAGIC + self._nonce
        self.trusted = False
        self._in = self._out = b""
        self._sent = self._received = 0
        self._data = bytearray()

    @property
    def ready(self) -> bool:
        """Whether messages can be packed."""
        return bool(self._out)

    def pack(self, kind: str, fields: Fields, blob: bytes = b"") -> bytes:
        """Give the bytes of a message, which must be sent in the order in which they are packed.

        Raises ValueError for what is too large, or no JSON.
        """
        return b"".join(self.pack_parts(kind, fields, blob))

    def pack_parts(self, kind: str, fields: Fields, blob: bytes = b"") -> tuple[bytes, ...]:
        """Give the same in parts: a large blob, which may go to thousands, is not copied."""
        assert self._out, "the peer's opening has not come"
        text = json.dumps({**fields, "kind": kind}).encode()
        size = _LENGTH.size + len(text) + len(blob)
        if size > LARGEST:
            raise ValueError(f"a message of {size} bytes; {LARGEST} is the most")
        body = _LENGTH.pack(len(text)) + text
        number, self._sent = self._sent, self._sent + 1
        if len(blob) < LARGE:
            body += blob
            return (_LENGTH.pack(size) + _mac(self._out, number, body) + body,)
        mac = hmac.new(self._out, _NUMBER.pack(number) + body, "sha256")
        mac.update(blob)
        return _LENGTH.pack(size) + mac.digest() + body, blob

    def feed(self, data: bytes) -> list[Message]:
        """Take what came; gives the messages that it completes. Raises WireError."""
        self._data += data
        if not self._in and not self._take_opening():
            return []
        found: list[Message] = []
        head = _LENGTH.size + MAC_BYTES
        while len(self._data) >= head:
            (size,) = _LENGTH.unpack_from(self._data)
            if not self.trusted and size > SMALL:
                raise WireError("its first message is too long")
            if len(self._data) < head + size:
                break
            mac = bytes(self._data[_LENGTH.size : head])
            body = bytes(memoryview(self._data)[head : head + size])
            del self._data[: head + size]
            if not hmac.compare_digest(mac, _mac(self._in, self._received, body)):
                raise WireError("it does not have the key of this job")
            self._received += 1
            self.trusted = True
            found.append(_message(body))
        return found

    def _take_opening(self) -> bool:
        length = len(MAGIC) + NONCE_BYTES
        if not MAGIC.startswith(self._data[: len(MAGIC)]):
            raise WireError("it does not speak our protocol, or another version of it")
        if len(self._data) < length:
            return False
        nonce = bytes(self._data[len(MAGIC) : length])
        del self._data[:length]
        if nonce == self._nonce:
            raise WireError("it sends our own nonce back")
        both = self._nonce + nonce if self._side == "driver" else nonce + self._nonce
        peer: Side = "agent" if self._side == "driver" else "driver"
        self._out = hmac.digest(self._key, self._side.encode() + both, "sha256")
        self._in = hmac.digest(self._key, peer.encode() + both, "sha256")
        return True


def _mac(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.digest(key, _NUMBER.pack(number) + body, "sha256")


def _message(body: bytes) -> Message:
    try:
        (length,) = _LENGTH.unpack_from(body)
        end = _LENGTH.size + length
        if end > len(body):
            raise ValueError("fields are cut off")
        fields: object = json.loads(body[_LENGTH.size : end])
        if not isinstance(fields, dict):
            raise ValueError("no object")
        known = cast("Fields", fields)
        return Message(str(known.pop("kind")), known, body[end:])
    except (struct.error, ValueError, KeyError, RecursionError) as e:
        raise WireError(f"a message that cannot be read: {e}") from None


__all__ = ["KEY_BYTES", "Message", "Wire", "WireError"]
