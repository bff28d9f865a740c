"""Output of ranks on the driver's console, written in a thread of its own, since it may block."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from procession.output.console import Console, lost_on
from procession.output.recent import Recent

AT_ONCE = 64 << 10  # bytes after which no more blocks are put together


class Printer:
    """Shows blocks in the order in which they came.

    shown: called, in the printer's thread, with blocks that are done with: `whose` of `show`, and
    the number of bytes. prefixes: what stands before the lines of each rank. on_quiet: to be set;
    called once when nobody reads standard output any more. recent: what was shown last, after
    `tap`.
    """

    def __init__(
        self,
        shown: Callable[[list[tuple[object, int]]], None],
        prefixes: Sequence[str] = (),
    ) -> None:
        self.on_quiet: Callable[[], None] | None = None
        self.prefixes = prefixes
        self._consoles = Console(sys.stdout, self._went_quiet), Console(sys.stderr)
        self._shown = shown
        self.recent: Recent | None = None
        self._blocks: deque[tuple[int, bytes, object]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="procession-printer", daemon=True)
        self._thread.start()

    @property
    def faults(self) -> list[str]:
        """What output was lost on our own streams, and why."""
        return lost_on(*self._consoles)

    @property
    def _taken(self) -> int:
        return sum(console.taken for console in self._consoles)

    def tap(self) -> None:
        """Keep what is shown last in `recent`, for other terminals."""
        from procession.output.recent import Recent

        self.recent = self.recent or Recent()
        self.recent.listen(*self._consoles)

    def show(self, stream: int, data: bytes, whose: object = None) -> None:
        """Show a block on stdout (1) or stderr (2); returns at once."""
        with self._changed:
            self._blocks.append((stream, data, whose))
            self._changed.notify()

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr."""
        self.show(2, line)

    def _went_quiet(self) -> None:
        if self.on_quiet is not None:
            self.on_quiet()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._blocks and not self._closing:
                    self._changed.wait()
                if not self._blocks:
                    return
                stream, data, shown = self._take()
            self._consoles[0 if stream == 1 else 1].write(data, abandon=self._read)
            if shown:
                self._shown(shown)

    def _take(self) -> tuple[int, bytes, list[tuple[object, int]]]:
        """Take several blocks to be shown at once: thousands of nodes send small ones."""
        stream = self._blocks[0][0]
        found: list[bytes] = []
        shown: list[tuple[object, int]] = []
        size = 0
        while self._blocks and self._blocks[0][0] == stream and size < AT_ONCE:
            _, data, whose = self._blocks.popleft()
            found.append(data)
            size += len(data)
            if whose is not None:
                shown.append((whose, len(data)))
        return stream, b"".join(found), shown

    def close(self, patience: float | None, *, hurry: bool = False) -> bool:
        """Show what is left; False if it was cut off.

        patience: seconds in which the consoles may take nothing; None: however long. hurry: no more
            seconds than that, though they take what is shown.
        """
        with self._changed:
            if self._closing:
                return True
            self._closing = True
            self._changed.notify()
        taken = -1
        while self._thread.is_alive() and taken != self._taken:
            taken = self._taken
            self._thread.join(patience)
            if hurry:
                break
        whole = not self._thread.is_alive()
        if not whole:
            os.write(self._write, b"x")  # wakes the thread that waits for the console
            self._thread.join(1.0)
        for console in self._consoles:
            console.close()
        os.close(self._read)
        os.close(self._write)
        return whole
