"""The last lines of one source, or of a file, for reports."""

from __future__ import annotations

import os
import threading
import time

from procession.output.lines import LineSplitter
from procession.output.rankfiles import open_regular

LINES = 20
BYTES = 64 << 10
LINE = 1000  # bytes of a last line


class Tail:
    """Splits what one source wrote into lines, and keeps the last of them.

    Bytes go in from one thread, which may also use `splitter`, all but its `feed` and `end`;
    `lines` may be called from any.

    fed_at: when there was something last, in nanoseconds of the monotonic clock; 0: never.
    """

    def __init__(self) -> None:
        self.splitter = LineSplitter()
        self.fed_at = 0
        self._lock = threading.Lock()
        self._kept = bytearray()

    def feed(self, block: bytes) -> bytes:
        """Give the lines that a block completes, as `LineSplitter.feed`, and keep their end."""
        with self._lock:
            self.fed_at = time.monotonic_ns()
            return self._keep(self.splitter.feed(block))

    def end(self) -> bytes:
        """Give the incomplete line as a line, as `LineSplitter.end`, and keep it."""
        with self._lock:
            return self._keep(self.splitter.end())

    def _keep(self, lines: bytes) -> bytes:
        self._kept += lines
        # Twice the size before it is cut: then cutting costs a byte moved per byte added.
        if len(self._kept) > 2 * BYTES:
            del self._kept[: -BYTES - 1]
        return lines

    def lines(self) -> list[str]:
        """Give the last lines, as `last_lines`; the incomplete one is the last of them."""
        with self._lock:
            return last_lines(bytes(self._kept) + self.splitter.pending)

    def last(self) -> bytes:
        """Give the last line that is not empty, or its end, as it was written."""
        with self._lock:
            return last_line(bytes(self._kept[-LINE:]) + self.splitter.pending[-LINE:])


def last_line(text: bytes) -> bytes:
    r"""Give the last line of some text that is not empty; of one with `\r`, its latest state."""
    line = text.rstrip().rpartition(b"\n")[2].rpartition(b"\r")[2]
    return line[-LINE:]


def last_lines(text: bytes) -> list[str]:
    r"""Give the last 20 lines of some text, and at most 64 KiB; empty ones at its end are left out.

    Each is in its latest state where it had `\r`, without its newline, else as it was written;
    bytes that are not UTF-8 are replaced. The first may lack its beginning.
    """
    if len(text) > BYTES:
        text = text[-BYTES:].lstrip(bytes(range(0x80, 0xC0)))  # no part of a character
    text = text.rstrip(b"\r\n")
    if not text:
        return []
    lines = text.decode(errors="replace").split("\n")[-LINES:]
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


def end_of(path: str, most: int) -> tuple[float, bytes]:
    """Give when a file was written to, and its last bytes; (0, b"") if it cannot be read."""
    try:
        with open_regular(path) as f:
            f.seek(max(0, f.seek(0, os.SEEK_END) - most))
            return os.fstat(f.fileno()).st_mtime, f.read(most)
    except OSError:
        return 0.0, b""
