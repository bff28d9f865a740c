"""What the console has shown last, for other terminals that attach to the run.

It is written by the thread that shows the output, and read by another at its own pace: a reader
that is too slow finds a gap, never a queue that grows.
"""

from __future__ import annotations

import threading
from collections import deque

KEPT = 1 << 20  # bytes


class Recent:
    """The last bytes of a console, in blocks as they were written. Used by any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Each with its stream, and the number of lines until its end.
        self._blocks: deque[tuple[bytes, str, int]] = deque()
        self._first = 0  # the number of the first block that is kept
        self._bytes = 0
        self._lines = 0

    def add(self, data: bytes, stream: str) -> None:
        """Take what is written to a stream, "out" or "err"."""
        with self._lock:
            self._lines += data.count(b"\n")
            self._blocks.append((data, stream, self._lines))
            self._bytes += len(data)
            while self._bytes > KEPT and len(self._blocks) > 1:
                self._bytes -= len(self._blocks.popleft()[0])
                self._first += 1

    def last(self, lines: int) -> tuple[tuple[int, int], list[tuple[bytes, str]]]:
        """Give the last lines, and the position behind them."""
        with self._lock:
            found: deque[tuple[bytes, str]] = deque()
            wanted = lines
            for data, stream, _ in reversed(self._blocks):
                if wanted <= 0:
                    break
                count = data.count(b"\n")
                if count > wanted:
                    data = b"\n".join(data.split(b"\n")[-wanted - 1 :])  # noqa: PLW2901
                found.appendleft((data, stream))
                wanted -= count
            return (self._first + len(self._blocks), self._lines), list(found)

    def read(
        self, position: tuple[int, int], most: int = 1 << 16
    ) -> tuple[tuple[int, int], int, list[tuple[bytes, str]]]:
        """Read on from a position; gives the new one, how many lines were missed, and blocks.

        most: bytes, which the last block may exceed.
        """
        number, lines = position
        found: list[tuple[bytes, str]] = []
        missed = size = 0
        with self._lock:
            if number < self._first:
                number, (data, _, end) = self._first, self._blocks[0]
                missed = end - data.count(b"\n") - lines
            for at in range(number - self._first, len(self._blocks)):
                if size >= most:
                    break
                data, stream, lines = self._blocks[at]
                found.append((data, stream))
                size += len(data)
        return (number + len(found), lines), missed, found
