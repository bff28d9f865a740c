"""Authenticated messages between the driver of a job and its node processes. Pure.

Theory of operation. Driver and node process share a key, which travelled through the engine. Each
begins with an opening: a magic word with the version, what it can do, and a nonce. From the key,
both openings and the direction comes a key for each direction, and every frame carries a MAC of its
number and its body by it. So a peer that sends one valid frame has the key, and no frame can be
replayed, left out, sent back or copied from another connection. No further step is needed: the
first frame of each side is its proof. Until it has come, a frame must be small.

    opening: 8 bytes magic, 1 byte abilities, 32 bytes nonce
    frame:   length of the body (4 bytes), HMAC-SHA256 of number (8 bytes) and body, body
    body:    1 byte (a whole message, a part, or the last part), message or part of it
    message: length of the fields (4 bytes), fields (a JSON object with "kind"), blob

A large message is sent in parts, and small messages may go between them: so a value of a gigabyte
delays no heartbeat. The parts of two messages are never mixed.

If both sides can do it, the frames are sent within TLS 1.3, with a key derived from the same one
(see `tunnel`). An attacker who removes that ability from an opening is detected, since the keys
depend on both openings as each side has seen them: two ends that can both encrypt either do so or
cannot communicate. If one side cannot encrypt, others on the network between nodes can read what
ranks print, as with torch's own traffic.

Rejected: `multiprocessing.connection` (it checks the key once, with MD5 before Python 3.12, and
protects nothing after that; and it blocks); TLS with certificates (nodes are not known in advance).
"""

from __future__ import annotations

import hmac
import json
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from procession.engines.tunnel import Tunnel, TunnelError, possible
from procession.values.base import Value, cast

Fields = dict[str, Any]
Piece = bytes | bytearray | memoryview
Side = Literal["driver", "agent"]

MAGIC = b"PRCSSN\x00\x02"
NONCE_BYTES = 32
MAC_BYTES = 32
KEY_BYTES = 32
SMALL = 64 << 10  # bytes of a first frame
PART = 256 << 10  # bytes of a message that one frame holds
LARGEST = (1 << 32) - 1  # bytes of a message

_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!Q")
_WHOLE, _PART, _LAST = b"\0", b"\1", b"\2"
_CAN_ENCRYPT = 1  # in the byte of abilities
NO_KEY = "it does not have the key of this job"


class WireError(Exception):
    """What came is not from a peer with our key; nothing more may be read from it."""


class Message(Value):
    """What one side sends the other. blob: bytes that are no text, such as a pickle."""

    kind: str
    fields: Fields
    blob: bytes | bytearray = b""


class Parcel:
    """A message on its way out. Raises ValueError for what is too large, or no JSON.

    fits: whether one frame can hold it. done: all of it has been given out. The blob is not copied,
    for it may go to thousands.
    """

    def __init__(self, kind: str, fields: Fields, blob: Piece = b"") -> None:
        self.kind = kind
        text = json.dumps({**fields, "kind": kind}).encode()
        data = [_LENGTH.pack(len(text)) + text, *([blob] if blob else ())]
        size = sum(map(len, data))
        if size > LARGEST:
            raise ValueError(f"a message of {size} bytes; {LARGEST} is the most")
        self.fits = size <= PART
        self._frames = iter([data]) if self.fits else _cut(data)
        self._left = 1 if self.fits else sum(-(-len(each) // PART) for each in data)

    @property
    def done(self) -> bool:
        """Whether nothing of it is left."""
        return not self._left

    def take_frame(self) -> Sequence[Piece]:
        """Take what the next frame holds."""
        self._left -= 1
        return next(self._frames)


def _cut(data: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    for each in map(memoryview, data):
        for at in range(0, len(each), PART):
            yield [each[at : at + PART]]


class Wire:
    """One connection, seen from one side.

    opening: what to send first. ready: whether messages can be packed: the peer's opening has come,
    and the handshake is done if there is one. trusted: whether the peer has proved that it has the
    key. encrypts: whether this side can; None: if this Python can.
    """

    def __init__(self, key: bytes, side: Side, *, encrypts: bool | None = None) -> None:
        self._key = key
        self._side: Side = side
        self._encrypts = possible() if encrypts is None else encrypts
        abilities = bytes([_CAN_ENCRYPT if self._encrypts else 0])
        self._nonce = os.urandom(NONCE_BYTES)
        self.opening = MAGIC + abilities + self._nonce
        self.trusted = False
        self._tunnel: Tunnel | None = None
        self._in = self._out = b""
        self._sent = self._received = 0
        self._data = bytearray()
        self._parts = bytearray()  # of a message that is not whole yet

    @property
    def ready(self) -> bool:
        """Whether messages can be packed."""
        return bool(self._out) and (self._tunnel is None or self._tunnel.ready)

    @property
    def encryption(self) -> str:
        """What encrypts this connection, in words; "" for nothing."""
        return self._tunnel.said if self._tunnel is not None and self._tunnel.ready else ""

    def frame(self, parcel: Parcel) -> list[Piece]:
        """Give the bytes of a parcel's next frame, to be sent in the order in which it is asked."""
        assert self.ready, "the peer's opening has not come"
        parts = parcel.take_frame()
        word = (_WHOLE if parcel.fits else _LAST) if parcel.done else _PART
        number, self._sent = self._sent, self._sent + 1
        mac = hmac.new(self._out, _NUMBER.pack(number) + word, "sha256")
        for part in parts:
            mac.update(part)
        head = _LENGTH.pack(1 + sum(map(len, parts))) + mac.digest() + word
        if self._tunnel is None:
            return [head, *parts]
        self._tunnel.send([head, *parts])
        return [self._tunnel.out()]

    def out(self) -> bytes:
        """Take bytes that are to be sent besides messages: those of a handshake."""
        return self._tunnel.out() if self._tunnel is not None else b""

    def feed(self, data: bytes) -> list[Message]:
        """Take what came; gives the messages that it completes. Raises WireError."""
        if not self._in:
            self._data += data
            if not self._take_opening():
                return []
            data = bytes(self._data)
            self._data.clear()
        try:
            self._data += data if self._tunnel is None else self._tunnel.feed(data)
        except TunnelError as e:
            raise WireError(str(e)) from None
        return self._take_frames()

    def _take_frames(self) -> list[Message]:
        found: list[Message] = []
        head = _LENGTH.size + MAC_BYTES
        while len(self._data) >= head:
            (size,) = _LENGTH.unpack_from(self._data)
            if not 0 < size <= (1 + PART if self.trusted else SMALL):
                raise WireError(f"its {'' if self.trusted else 'first '}message is too long")
            if len(self._data) < head + size:
                break
            mac = bytes(self._data[_LENGTH.size : head])
            body = bytes(memoryview(self._data)[head : head + size])
            del self._data[: head + size]
            if not hmac.compare_digest(mac, _mac(self._in, self._received, body)):
                raise WireError(NO_KEY)
            self._received += 1
            self.trusted = True
            message = self._join(body[:1], memoryview(body)[1:])
            found += [] if message is None else [message]
        return found

    def _join(self, word: bytes, part: memoryview) -> Message | None:
        if word == _WHOLE:
            return _message(bytearray(part))
        self._parts += part
        if len(self._parts) > LARGEST:
            raise WireError("its message is too long")
        if word == _PART:
            return None
        whole, self._parts = self._parts, bytearray()
        return _message(whole)

    def _take_opening(self) -> bool:
        length = len(MAGIC) + 1 + NONCE_BYTES
        if not MAGIC.startswith(self._data[: len(MAGIC)]):
            raise WireError("it does not speak our protocol, or another version of it")
        if len(self._data) < length:
            return False
        theirs = bytes(self._data[:length])
        del self._data[:length]
        if theirs[-NONCE_BYTES:] == self._nonce:
            raise WireError("it sends our own nonce back")
        ours = self.opening
        both = ours + theirs if self._side == "driver" else theirs + ours
        peer: Side = "agent" if self._side == "driver" else "driver"
        self._out = hmac.digest(self._key, self._side.encode() + both, "sha256")
        self._in = hmac.digest(self._key, peer.encode() + both, "sha256")
        if self._encrypts and theirs[len(MAGIC)] & _CAN_ENCRYPT:
            self._tunnel = Tunnel(hmac.digest(self._key, b"tls" + both, "sha256"), self._side)
        return True


def _mac(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.digest(key, _NUMBER.pack(number) + body, "sha256")


def _message(body: bytearray) -> Message:
    """Read a message; what is left of `body` is its blob."""
    try:
        (length,) = _LENGTH.unpack_from(body)
        end = _LENGTH.size + length
        if end > len(body):
            raise ValueError("fields are cut off")
        fields: object = json.loads(body[_LENGTH.size : end])
        if not isinstance(fields, dict):
            raise ValueError("no object")
        known = cast("Fields", fields)
        del body[:end]
        return Message(str(known.pop("kind")), known, body)
    except (struct.error, ValueError, KeyError, RecursionError) as e:
        raise WireError(f"a message that cannot be read: {e}") from None
