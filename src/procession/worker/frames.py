"""The frames on a rank's result pipe; see `outcome` for what they mean, `results` for who reads."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<cQq")
DONE, VALUE, FAILED, ERROR, ACCOUNT = b"D", b"V", b"F", b"E", b"A"

__all__ = ["ACCOUNT", "DONE", "ERROR", "FAILED", "HEADER", "VALUE"]
