r"""The lower lines of a terminal, kept apart from the text that scrolls above them.

Theory of operation. The terminal is told to scroll only the lines above (DECSTBM), and the cursor
stays there: whatever is written to it, by the ranks' console, by the shell's echo of what is typed,
or by another process, scrolls in the upper part and into the scrollback as usual. Lines of the pane
are written between "save cursor" and "restore cursor", in one write, by the same `Console` as the
text of ranks, so that neither is torn. To write text thus costs what it costs without a pane.

After a change of size, terminals move lines in different ways. But the pane stood below the
cursor, so that all below the cursor is erased, and the pane drawn anew.

Rejected: `rich.live`, which erases, writes text and draws again (each line of text costs a view, a
prompt without a newline is erased, and what is typed leaves copies of the view in the text); an
alternate screen (no scrollback, and an empty screen afterwards).
"""

from __future__ import annotations

import os

from procession.output.console import Console

SAVE, RESTORE = b"\x1b7", b"\x1b8"
ALL_SCROLLS = SAVE + b"\x1b[r" + RESTORE  # it moves the cursor, hence the two around it
ERASE_BELOW = b"\x1b[J"
ERASE_LINE = b"\x1b[K"
DOWN = b"\x1bD"  # in the same column, scrolling where there is no more line
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
PLAIN = b"\x1b[0m"


class Pane:
    """The lower lines of the terminal that `console` writes to: that of our standard output."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._size = (0, 0)
        self._shown: list[bytes] = []

    def size(self) -> tuple[int, int]:
        """Give the columns and rows of the terminal."""
        try:
            columns, rows = os.get_terminal_size(1)
        except OSError:
            return 80, 24
        return columns or 80, rows or 24

    def show(self, lines: list[str], size: tuple[int, int]) -> None:
        """Show these lines. While the size stays, the pane never has fewer lines than before.

        size: for which they were drawn. Lines that stand there already are not written again.
        """
        if self.console.owes:
            return  # the terminal does not read; this state is out of date when it does
        new = [line.encode(errors="replace") for line in lines]
        data = b""
        if size != self._size or len(new) > len(self._shown):
            data, self._shown, self._size = _make_room(len(new), size[1]), [b""] * len(new), size
            changed = [(at, line) for at, line in enumerate(new)]
        else:
            new = [b""] * (len(self._shown) - len(new)) + new
            changed = [(at, n) for at, n in enumerate(new) if n != self._shown[at]]
        self._shown = new
        if changed:
            top = size[1] - len(new) + 1
            drawn = b"".join(
                b"\x1b[%d;1H%s%s%s%s" % (top + at, PLAIN, line, PLAIN, ERASE_LINE)
                for at, line in changed
            )
            self.console.aside(data + HIDE + SAVE + drawn + RESTORE + SHOW)

    def clear(self) -> None:
        """Take the pane away; the cursor stands where the text ended."""
        if self._shown:
            self._shown, self._size = [], (0, 0)
            self.console.aside(ALL_SCROLLS + ERASE_BELOW + SHOW)


def _make_room(height: int, rows: int) -> bytes:
    """Have the cursor, and all that is written from now on, above the last `height` lines."""
    room = DOWN * height + b"\x1b[%dA" % height
    apart = SAVE + b"\x1b[1;%dr" % max(1, rows - height) + RESTORE
    return ALL_SCROLLS + ERASE_BELOW + room + apart
