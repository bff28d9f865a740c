"""What agents show, on the driver's console: written in a thread, since a console may not read."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable

from procession.output.console import Console

AT_ONCE = 64 << 10  # bytes after which no more blocks are put together


class Printer:
    """Shows blocks in the order in which they came.

    shown: called, in the printer's thread, with blocks that are shown, or that nobody reads: what
    `show` was given as `whose`, and the number of bytes.
    on_quiet: called once when nobody reads standard output any more.
    """

    def __init__(
        self,
        shown: Callable[[list[tuple[object, int]]], None],
        on_quiet: Callable[[], None] | None = None,
    ) -> None:
        self._consoles = Console(sys.stdout, on_quiet), Console(sys.stderr)
        self._shown = shown
        self._blocks: deque[tuple[int, bytes, object]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="procession-printer", daemon=True)
        self._thread.start()

    def show(self, stream: int, data: bytes, whose: object = None) -> None:
        """Show a block on stdout (1) or stderr (2); returns at once."""
        with self._changed:
            self._blocks.append((stream, data, whose))
            self._changed.notify()

    def say(self, text: str) -> None:
        """Show a line of our own on stderr."""
        from procession.output.escape import harmless

        self.show(2, harmless(f"{text}\n".encode(errors="backslashreplace")))

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
        """Take what can be shown at once: small blocks come from thousands of nodes."""
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

    def close(self, patience: float | None) -> bool:
        """Show what is left, within `patience` seconds (None: however long); False if cut off."""
        with self._changed:
            if self._closing:
                return True
            self._closing = True
            self._changed.notify()
        self._thread.join(patience)
        whole = not self._thread.is_alive()
        if not whole:
            os.write(self._write, b"x")  # gives up the waiting for a console that does not read
            self._thread.join(1.0)
        for console in self._consoles:
            console.close()
        os.close(self._read)
        os.close(self._write)
        return whole


__all__ = ["Printer"]
