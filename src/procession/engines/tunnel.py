"""TLS 1.3 around a wire, with a pre-shared key in place of certificates. Pure: bytes in, bytes out.

Python can do this from 3.13 on, if its OpenSSL can. No certificate is needed: only the peer has the
key of the job.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from procession.values.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, Literal

CHOICES = ("auto", "required")
NOT_HERE = (
    "TLS with a pre-shared key needs Python 3.13 or later, with an OpenSSL that can do it; this is "
    f"Python {sys.version.split()[0]} ({sys.executable})"
)
IDENTITY = "procession"
BLOCK = 1 << 18  # bytes that are decrypted at once


class TunnelError(Exception):
    """The peer does not have the key, or what came was changed on its way."""


def possible() -> bool:
    """Tell whether this Python can do TLS 1.3 with a pre-shared key."""
    if sys.version_info < (3, 13):
        return False
    try:
        import ssl
    except ImportError:
        return False
    return bool(getattr(ssl, "HAS_PSK", False)) and ssl.HAS_TLSv1_3


class Tunnel:
    """One end. ready: whether the handshake is done, and something can be sent."""

    def __init__(self, key: bytes, side: Literal["driver", "agent"]) -> None:
        import ssl

        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = _context(key, side).wrap_bio(
            self._in, self._out, server_side=side == "driver"
        )
        self.ready = False

    @property
    def said(self) -> str:
        """What is in use, in words."""
        cipher = self._object.cipher()
        return f"{self._object.version() or 'TLS'} {cipher[0] if cipher else ''}".strip()

    def feed(self, data: bytes) -> bytes:
        """Decrypt what came; gives the plain bytes, which may be none yet. Raises TunnelError."""
        import ssl

        self._in.write(data)
        found: list[bytes] = []
        try:
            if not self.ready:
                self._object.do_handshake()
                # The peer could have chosen a certificate of its own instead of the key.
                if not self._object.session_reused:
                    raise TunnelError("it did not use the key of this job")
                self.ready = True
            while block := self._object.read(BLOCK):
                found.append(block)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as e:
            raise TunnelError(
                f"it does not have the key of this job, or cannot encrypt as we do ({e.reason})"
            ) from None
        return b"".join(found)

    def send(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt what is to be sent; see `out`."""
        for part in parts:
            self._object.write(part)

    def out(self) -> bytes:
        """Take the bytes that are to go to the peer now."""
        return self._out.read()


def _context(key: bytes, side: str) -> ssl.SSLContext:
    import ssl

    server = side == "driver"
    context: Any = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if server:
        context.num_tickets = 0  # sessions are never resumed

        def give(_: str | None) -> bytes:
            return key

        context.set_psk_server_callback(give, IDENTITY)
    else:
        context.check_hostname = False  # no certificate is accepted at all

        def offer(_: str | None) -> tuple[str, bytes]:
            return IDENTITY, key

        context.set_psk_client_callback(offer)
    return context


def check(choice: str) -> None:
    """Look whether links can be encrypted as is asked for. Raises SpecError."""
    if choice not in CHOICES:
        raise SpecError(f"link encryption must be {' or '.join(CHOICES)}, not {choice!r} [P215]")
    if choice == "required" and not possible():
        raise SpecError(f"link encryption cannot be {choice}: {NOT_HERE} [P215]")
