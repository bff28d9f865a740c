"""What stands on one console: whole lines with a prefix, and at most one line that is open.

An open line is one whose end has not come although it was shown (a prompt, `Loading... `). Its
continuation stays in it while nothing else is shown; otherwise the open line is ended, and the
continuation is a line of its own. Two streams that lead to the same terminal or file share one
screen, because they share the line in which the cursor stands.
"""

from __future__ import annotations

from procession.output.text import RESET, end_colours, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.console import Console

# Readable on dark and on light: cyan, yellow, magenta, green, blue, red.
_COLOURS = (36, 33, 35, 32, 34, 31)


class Screen:
    """Composes what is written to one console; used by one thread at a time.

    What is shown stands in a buffer until `flush`: one write for what many ranks had to say.
    waiting: bytes in the buffer. progress_every: seconds between two states of a line that replaces
    itself, if that is to be shown more often than a new line would be.
    """

    progress_every: float | None = None

    def __init__(self, console: Console) -> None:
        self.console = console
        self.waiting = 0
        self._parts: list[bytes | memoryview] = []
        self._open: object = None  # whose line is open
        self._open_coloured = False

    @property
    def due(self) -> float | None:
        """When to flush it although nothing comes, in seconds of the monotonic clock."""
        return None

    def prefix(self, text: bytes, colour: int | None) -> bytes:
        """Give a prefix as this console shows it; `colour` is any number, for example a rank."""
        text = harmless(text)  # it may name a machine, or be a user's template
        if colour is None or not text or not self.console.colour:
            return text
        return b"\x1b[%dm%s%s" % (_COLOURS[colour % len(_COLOURS)], text, RESET)

    def lines(self, owner: object, prefix: bytes, lines: bytes, continues: bool = False) -> None:
        r"""Show whole lines, each with its `\n`.

        continues: the first of them is the end of a line of which `owner` has shown the
            beginning; it gets no prefix if that line is still open, and nothing is shown for it
            if that line was ended and there is nothing to add.
        """
        if continues and self._open is not owner and lines.startswith(b"\n"):
            lines = lines[1:]
        if not lines:
            return
        lines = harmless(lines)
        if self.console.terminal and b" \n" in lines:  # a prefix would move them to the next row
            lines = b"\n".join(line.rstrip(b" ") for line in lines.split(b"\n"))
        if self.console.colour:
            lines = end_colours(lines)
        if continues and self._open is owner:
            end, _, lines = lines.partition(b"\n")
            self._add(end)
            # No newline of its own for an owner that wrote one.
        self.end_line()
        if lines:
            if prefix:
                self._add(prefix)
                lines = lines.replace(b"\n", b"\n" + prefix)
                # The last newline has got a prefix too; it is left out without a copy.
                self._parts.append(memoryview(lines)[: -len(prefix)])
                self.waiting += len(lines)
            else:
                self._add(lines)

    def partial(self, owner: object, prefix: bytes, text: bytes, continues: bool = False) -> None:
        """Show the beginning of a line, or more of it, and leave the line open."""
        text = harmless(text)
        if not (continues and self._open is owner):
            self.end_line()
            self._add(prefix)
        self._add(text)
        self._open = owner
        self._open_coloured = self._open_coloured or (self.console.colour and b"\x1b" in text)

    def progress(self, owner: object, prefix: bytes, state: bytes) -> bool:
        """Show the state of a line that replaces itself; gives whether it stands as a line."""
        self.lines(owner, prefix, state + b"\n")
        return True

    def finish(self) -> None:
        """Show what waits; nothing comes any more."""
        self.end_line()

    def pass_on(self, block: bytes) -> None:
        """Show a block as it is: of another machine, which has made its lines."""
        self._add(block)

    def flush(self, abandon: int | None = None) -> bool:
        """Write the buffer; False if `abandon` became readable before the console took it."""
        if not self._parts:
            return True
        data = b"".join(self._parts)
        self._parts.clear()
        self.waiting = 0
        return self.console.write(data, abandon=abandon)

    def _add(self, text: bytes) -> None:
        if text:
            self._parts.append(text)
            self.waiting += len(text)

    def end_line(self) -> None:
        """End the open line, if there is one."""
        if self._open is not None:
            self._add(RESET + b"\n" if self._open_coloured else b"\n")
        self._open = None
        self._open_coloured = False
