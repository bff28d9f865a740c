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
    cut: its log file has not taken all of it.
    """

    def __init__(self) -> None:
        self.splitter = LineSplitter()
        self.fed_at = 0
        self.cut = False
        self._lock = threading.Lock()
        self._kept = bytearray()

    def feed(self, block: bytes) -> bytes:
        """Give the lines that a block completes, as `LineSplitter.feed`, and keep their end."""
        with self._lock:
            self.fed_at = time.monotonic_ns()
            lines = self.splitter.feed(block)
            self._keep(lines)
        return lines

    def end(self) -> bytes:
        """Give the incomplete line as a line, as `LineSplitter.end`, and keep it."""
        with self._lock:
            lines = self.splitter.end()
            self._keep(lines)
        return lines

    def _keep(self, lines: bytes) -> None:
        if len(lines) > BYTES:
            # Most of a large block is not even copied.
            self._kept = bytearray(memoryview(lines)[-BYTES - 1 :])
            return
        self._kept += lines
        # Twice the size before it is cut: then cutting costs a byte moved per byte added.
        if len(self._kept) > 2 * BYTES:
            del self._kept[: -BYTES - 1]

    def lines(self) -> list[str]:
        r"""Give the last 20 lines and at most 64 KiB, the incomplete line being the last.

        Each is in its latest state where it had `\r`, without its newline, else as it was
        written; bytes that are not UTF-8 are replaced. The first may lack its beginning.
        """
        with self._lock:
            text = bytes(self._kept) + self.splitter.pending
        if not text:
            return []
        text = text.removesuffix(b"\n")
        cut = len(text) - BYTES
        if cut > 0:
            # No character that has lost its first byte.
            text = text[cut:].lstrip(bytes(range(0x80, 0xC0)))
        return [line.decode(errors="replace") for line in text.split(b"\n")[-LINES:]]

    def last(self, most: int = LINE) -> bytes:
        """Give the last line that is not empty, or its last `most` bytes, as it was written."""
        with self._lock:
            return last_line(bytes(self._kept[-most:]) + self.splitter.pending[-most:], most)


class Tails:
    """The tails of a group, by rank and stream, "out" or "err"."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, str], Tail] = {}

    def renew(self, rank: int, stream: str) -> Tail:
        """Give a new one, of a new source."""
        tail = self._of[rank, stream] = Tail()
        return tail

    def lines(self, rank: int, stream: str) -> list[str]:
        """Give the last lines that were read of a stream, see `Tail.lines`."""
        tail = self._of.get((rank, stream))
        return [] if tail is None else tail.lines()

    def is_cut(self, rank: int, stream: str) -> bool:
        """Whether the log file of a stream has not taken all that was read of it."""
        tail = self._of.get((rank, stream))
        return tail is not None and tail.cut

    @property
    def cut(self) -> bool:
        """Whether there is any such stream."""
        return any(tail.cut for tail in list(self._of.values()))

    def last_line(self, rank: int) -> bytes:
        """Give the line that a rank wrote last, on either stream; b"" if there is none."""
        tails = [tail for tail in self._both(rank) if tail.fed_at]
        return max(tails, key=lambda tail: tail.fed_at).last() if tails else b""

    def last_read(self, rank: int) -> int:
        """Give when a stream of a rank was last read, in ns of the monotonic clock; 0: never."""
        return max((tail.fed_at for tail in self._both(rank)), default=0)

    def _both(self, rank: int) -> list[Tail]:
        found = (self._of.get((rank, stream)) for stream in ("out", "err"))
        return [tail for tail in found if tail is not None]


def last_line(text: bytes, most: int) -> bytes:
    r"""Give the last line of some text that is not empty; of one with `\r`, its latest state."""
    line = text.rstrip().rpartition(b"\n")[2].rpartition(b"\r")[2]
    return line[-most:]


def last_line_of(path: str) -> tuple[float, bytes]:
    """Give when a file was written to, and its last line; (0, b"") if it cannot be read."""
    try:
        at, _, text = _end_of(path, LINE)
    except OSError:
        return 0.0, b""
    return at, last_line(text, LINE)


def last_lines_of(path: str) -> tuple[str, ...]:
    """Give the last lines of a file that are not empty, () if it cannot be read."""
    try:
        _, whole, text = _end_of(path, BYTES)
    except OSError:
        return ()
    lines = text.decode(errors="replace").split("\n")
    if not whole and len(lines) > 1:
        del lines[0]
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    while shown and not shown[-1].strip():
        shown.pop()
    return tuple(shown[-LINES:])


def _end_of(path: str, most: int) -> tuple[float, bool, bytes]:
    """Give when a file was written to, whether `most` bytes are all of it, and its last bytes."""
    with open_regular(path) as f:
        size = f.seek(0, os.SEEK_END)
        f.seek(max(0, size - most))
        return os.fstat(f.fileno()).st_mtime, size <= most, f.read(most)
