"""What the console has shown last, for other terminals that attach to the run.

It is written by the thread that shows the output, and read by another at its own pace: a reader
that is too slow finds a gap, never a queue that grows.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.console import Console

KEPT = 1 << 20  # bytes


class Recent:
    """The last bytes of a console, in blocks as they were written. Used by any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: deque[tuple[bytes, str]] = deque()
        self._first = 0  # the number of the first block that is kept
        self._bytes = 0
        self._lines_gone = 0

    def add(self, data: bytes, stream: str) -> None:
        """Take what is written to a stream, "out" or "err"."""
        with self._lock:
            self._blocks.append((data, stream))
            self._bytes += len(data)
            while self._bytes > KEPT and len(self._blocks) > 1:
                gone, _ = self._blocks.popleft()
                self._first += 1
                self._bytes -= len(gone)
                self._lines_gone += gone.count(b"\n")

    def listen(self, stdout: Console, stderr: Console) -> None:
        """Take what is written to these consoles, from now on; they may be one."""
        stderr.seen_by = partial(self.add, stream="err")
        stdout.seen_by = partial(self.add, stream="out")

    def last(self, lines: int) -> tuple[tuple[int, int], list[tuple[bytes, str]]]:
        """Give the last lines, and the position behind them."""
        with self._lock:
            found: deque[tuple[bytes, str]] = deque()
            wanted = lines
            for data, stream in reversed(self._blocks):
                if wanted <= 0:
                    break
                count = data.count(b"\n")
                if count > wanted:
                    data = b"\n".join(data.split(b"\n")[-wanted - 1 :])  # noqa: PLW2901
                found.appendleft((data, stream))
                wanted -= count
            behind = sum(data.count(b"\n") for data, _ in self._blocks)
            position = self._first + len(self._blocks), self._lines_gone + behind
        return position, list(found)

    def read(
        self, position: tuple[int, int], most: int = 1 << 16
    ) -> tuple[tuple[int, int], int, list[tuple[bytes, str]]]:
        """Read on from a position; gives the new one, how many lines were missed, and blocks.

        most: bytes, which the last block may exceed.
        """
        number, lines = position
        with self._lock:
            missed = 0
            if number < self._first:
                missed = self._lines_gone - lines
                number, lines = self._first, self._lines_gone
            found: list[tuple[bytes, str]] = []
            at, size = number - self._first, 0
            while at < len(self._blocks) and size < most:
                data, stream = self._blocks[at]
                found.append((data, stream))
                size += len(data)
                lines += data.count(b"\n")
                at += 1
            return (self._first + at, lines), missed, found
