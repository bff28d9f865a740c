"""The frames on a rank's outcome channel. `outcome` says what they mean; `results` reads them."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<cQq")
DONE, VALUE, FAILED, ERROR = b"D", b"V", b"F", b"E"

# The largest bodies in bytes that a launcher believes. An error of a function may be larger, since
# it holds pickles of exceptions.
LARGEST_FAILED = 64 << 10
LARGEST_ERROR = 4 << 20
