"""One stream of one rank: where it is read, and what of it has been shown."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property

from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from procession.output.gate import Gate
    from procession.output.screen import Screen
    from procession.output.text import Tail

BLOCK = 64 << 10  # bytes per read: stays in the processor's cache; larger ones cost twice as much
_LARGEST_PIPE = 1 << 20  # bytes that one holds at most, if no privileged process has made it larger


class Source(Value):
    """A stream of a rank.

    prefix: stands before each of its lines on the console.
    colour: which of six colours the prefix has on a console with colours, any number, usually
        the rank; None for none.
    keep: says of a whole line, with its newline, whether it is shown; then incomplete lines and
        progress are not. None: all are. Called in the thread that reads; it must not raise.
    """

    rank: int
    stream: Literal["out", "err"]
    prefix: bytes = b""
    colour: int | None = None
    keep: Callable[[bytes], bool] | None = None


class Copies:
    """The file that gets those lines that hold one of some texts; ranks share it.

    prefix: stands before each of them. Raises OSError.
    """

    def __init__(self, path: str, prefix: bytes, texts: Sequence[str]) -> None:
        self._prefix = prefix
        self._texts = [text.encode() for text in texts]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = open(os.open(path, flags, 0o600), "wb", buffering=0)  # noqa: SIM115

    def copy_lines(self, lines: bytes) -> None:
        """Copy some whole lines, as far as the disk has room."""
        every = lines.splitlines(keepends=True)
        kept = [self._prefix + line for line in every if any(t in line for t in self._texts)]
        if kept:
            try:
                self._file.write(b"".join(kept))
            except OSError:
                pass  # the run looks at its disk in the end

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Feed:
    r"""One source while it is followed. Made in one thread, read in another.

    due: when the incomplete line is to be shown, in seconds of the monotonic clock, or None.
    left: bytes that may still be read, None for no end.
    is_file: it is a regular file, which has no end. copies: what gets some of its lines, too.
    gate: says what is shown; None: all is.
    partial_after: seconds after which a line is shown although its end has not come.
    progress_every: seconds between two states of a line that replaces itself by `\r`.
    """

    partial_after = 0.2
    progress_every = 1.0

    def __init__(
        self,
        fd: int,
        source: Source,
        screen: Screen,
        tail: Tail,
        *,
        is_file: bool,
        copies: Copies | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.fd = fd
        self._gate = gate
        self._copies = copies
        self.source = source
        self.due: float | None = None
        self.left: int | None = None
        self.is_file = is_file
        self._screen: Screen | None = screen
        self.progress_every = screen.progress_every or self.progress_every
        self._tail = tail
        self._splitter = tail.splitter
        self._position = os.lseek(fd, 0, os.SEEK_CUR) if self.is_file else 0
        self._shown_state: bytes | None = None  # the progress that was shown last, as a line
        self._shown_at = float("-inf")
        self._is_bar = False  # what was shown of this line is a bar, which goes again

    @cached_property
    def _prefix(self) -> bytes:
        """What stands before its lines; made when there is one."""
        assert self._screen is not None
        return self._screen.prefix(self.source.prefix, self.source.colour)

    def read(self) -> bytes | None:
        """Read a block: b"" at the end (of a file: for now), None if a pipe has nothing now."""
        size = BLOCK if self.left is None else min(BLOCK, self.left)
        if not size:
            return b""
        try:
            block = os.read(self.fd, size)
            if not block and self.is_file and os.fstat(self.fd).st_size < self._position:
                self._position = os.lseek(self.fd, 0, os.SEEK_SET)  # it was truncated
                block = os.read(self.fd, size)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # a broken disk or network: nothing comes now
        self._position += len(block)
        if self.left is not None:
            self.left -= len(block)
        return block

    def limit(self) -> None:
        """From now on, read nothing but what has been written until now."""
        if not self.is_file:
            self.left = _LARGEST_PIPE
            return
        try:
            size = os.fstat(self.fd).st_size
            self.left = size if size < self._position else size - self._position
        except OSError:
            self.left = 0  # a broken disk

    def mute(self) -> None:
        """Show nothing from now on; most files are not even read: they have their last lines."""
        self._screen = None
        self.due = None
        if self.is_file and self._copies is None:
            self.left = 0

    def take_block(self, block: bytes, now: float) -> None:
        """Show the lines that `block` completes, and say in `due` when to show what is left."""
        lines = self._tail.feed(block)
        if self._copies is not None:
            self._copies.copy_lines(lines)
        if self._screen is None:
            return
        splitter = self._splitter
        if lines:
            self._show(lines, splitter.continued, now)
            self.due = None
        if not splitter.untaken or self.source.keep is not None:
            self.due = None
            return
        if self.due is None:
            self.due = now + self.partial_after
        if splitter.progress:
            self.due = max(self.due, self._shown_at + self.progress_every)

    def tick(self) -> None:
        """Show the incomplete line as it is: progress as a line of its own, text as the part.

        Text that is shown for the first time opens a line; what was shown of it as progress is
        not shown again.
        """
        self.due = None
        screen, splitter = self._screen, self._splitter
        if screen is None or (self._gate is not None and self._gate.holds(self)):
            return
        if splitter.progress:
            state = splitter.take_all()
            if state != self._shown_state:
                stands = screen.progress(self, self._prefix, state)
                self._shown_state, self._is_bar = (state if stands else None), not stands
                self._shown_at = time.monotonic()
            return
        continues = splitter.taken > 0
        text = splitter.take_part()
        if text:
            self._shown_state = None
            screen.partial(self, self._prefix, text, continues)

    def _show(self, lines: bytes, continued: int, now: float) -> None:
        """Show whole lines, of whose first `continued` bytes were shown before."""
        state, self._shown_state = self._shown_state, None
        if self._is_bar:
            continued, self._is_bar = 0, False
        if self._gate is not None:
            passed = self._gate.let_through(self, lines, now, continued)
            continued = continued if passed.startswith(lines[:continued]) else 0
            lines = passed
        if state is not None:
            # Progress is shown in whole lines: its final state anew, unless it stands there.
            if lines.startswith(state + b"\n"):
                lines = lines[len(state) + 1 :]
            continued = 0
        keep = self.source.keep
        if keep is not None:
            lines = b"".join(line for line in lines.splitlines(keepends=True) if keep(line))
        self.show(lines[continued:], continued > 0)

    def show(self, lines: bytes, continues: bool = False) -> None:
        """Show whole lines, if anything is shown; continues: see `Screen.lines`."""
        if lines and self._screen is not None:
            self._screen.lines(self, self._prefix, lines, continues)

    def end(self) -> None:
        """Show what is left as a line, and close the descriptors."""
        lines = self._tail.end()
        if self._copies is not None:
            self._copies.copy_lines(lines)
        if self._screen is not None and lines:
            self._show(lines, self._splitter.continued, time.monotonic())
        self.due = None
        self.close()

    def close(self) -> None:
        """Close the descriptors; may be called again."""
        if self._copies is not None:
            self._copies.close()
        if self.fd >= 0:
            try:
                os.close(self.fd)
            except OSError:
                pass  # of a disk that is broken; it is closed
        self.fd = -1
