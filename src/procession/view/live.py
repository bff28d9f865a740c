"""Threads that look at a group and show it: on a terminal, or by a line now and then, for logs.

An error in one ends it, never the group.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from procession.output.console import Console
from procession.view.seen import Look, Sight, Whole
from procession.view.words import status_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.view.draw import Drawing

EVERY = 0.5  # seconds between two looks
LONGEST_CLOSE = 3.0  # seconds that a look, or a terminal that does not read, may take at the end
LONGEST_HIDE = 1.0
START_OF_LINE = "\r\x1b[K"
SAVE, RESTORE = b"\x1b7", b"\x1b8"
ALL_SCROLLS = SAVE + b"\x1b[r" + RESTORE  # it moves the cursor, hence the two around it
ERASE_BELOW = b"\x1b[J"
ERASE_LINE = b"\x1b[K"
DOWN = b"\x1bD"  # in the same column, scrolling where there is no more line
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
PLAIN = b"\x1b[0m"


class View:
    """Shows a group on the terminal of `console`, below the text that is written there.

    look: gives what is known of the group; see `Group.look` for the keys. Called in
        the view's thread; what it raises ends the view.
    console: writes to the terminal; nothing else may while the view is shown. The caller closes it.
    on_crash: called in the view's thread with the error that ended the view, when it is off the
        terminal.
    """

    def __init__(
        self,
        look: Callable[[], Look],
        console: Console,
        *,
        on_crash: Callable[[Exception], None] | None = None,
    ) -> None:
        self._sight = Sight(look)
        self._console = console
        self._pane = Pane(console)
        self._on_crash = on_crash
        self._last: Look | None = None  # shown at the end, if there is one
        self._closing = self._hidden = False
        self._gone = False  # from the terminal, while it is hidden
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="procession-view", daemon=True)

    def start(self) -> None:
        """Begin to show it."""
        self._thread.start()

    def wake(self) -> None:
        """Look now (the terminal's size has changed). From any thread, and signal handlers."""
        self._wake.put(None)

    def remember(self) -> None:
        """Look now, and show this as the last state: soon there is nothing left to look at."""
        with suppress(Exception):  # then the last state is the one before
            self._last = self._sight.look()

    def hide(self) -> None:
        """Take the view off the terminal, until `unhide`; returns when it is gone.

        Takes no lock: a signal handler calls it, which may interrupt itself.
        """
        self._gone, self._hidden = False, True
        self.wake()
        deadline = time.monotonic() + LONGEST_HIDE
        while not self._gone and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)

    def unhide(self) -> None:
        """Show it again."""
        self._hidden = False
        self.wake()

    def close(self) -> None:
        """End the view. Its last state is left on the terminal as text; the cursor is below."""
        self._closing = True
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(LONGEST_CLOSE)

    # In the thread.

    def _run(self) -> None:
        try:
            from procession.view.draw import Drawing

            drawing = Drawing(colour=self._console.colour)
            whole: Whole | None = None
            while not self._closing:
                if self._hidden:
                    self._pane.clear()
                    self._gone = True
                else:
                    whole, size = self._sight.see(), self._pane.size()
                    self._pane.show(drawing.lines(whole, size[0], size[1] // 2), size)
                with suppress(queue.Empty):
                    self._wake.get(timeout=EVERY)
            self._pane.clear()
            if self._last is not None:
                whole = self._sight.see(self._last)
            if whole is not None and not self._hidden:
                self._leave(drawing, whole)
        except Exception as e:
            with suppress(Exception):  # nothing more can be done about it
                self._pane.clear()
                if self._on_crash is not None:
                    self._on_crash(e)

    def _leave(self, drawing: Drawing, whole: Whole) -> None:
        """Leave the last state behind, as text."""
        size = self._pane.size()
        lines = drawing.lines(whole, size[0], max(4, size[1] // 2))
        # The console does not know what the terminal itself has written (^C).
        start = "\r\n" if self._console.midline else START_OF_LINE
        text = start + "".join(f"{line.rstrip()}\r\n" for line in lines)
        self._console.write(text.encode(errors="replace"), timeout=1.0)


@contextmanager
def status_lines(
    look: Callable[[], Look], say: Callable[[str], None], every: float
) -> Generator[None]:
    """Say a line every so many seconds, from a thread of its own, while the block runs.

    look: as for `View`. say: takes the line, without its newline. The first line comes after the
    first interval.
    """
    sight, closing = Sight(look), threading.Event()

    def run() -> None:
        try:
            sight.see()  # the beginning of rates
            while not closing.wait(every):
                say(status_line(sight.see()))
        except Exception as e:
            say(f"procession: the status line failed ({type(e).__name__}: {e}) [P413]")

    thread = threading.Thread(target=run, name="procession-status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join(1.0)


class Pane:
    """The lower lines of the terminal that `console` writes to: that of our standard output.

    They are kept apart from the text that scrolls above them. The terminal is told to scroll only
    the lines above (DECSTBM), and the cursor stays there: whatever is written to it, by the ranks'
    console, by the shell's echo of what is typed, or by another process, scrolls in the upper part
    and into the scrollback as usual. Lines of the pane are written between "save cursor" and
    "restore cursor", in one write, by the same `Console` as the text of ranks, so that neither is
    torn. To write text thus costs what it costs without a pane.

    After a change of size, terminals move lines in different ways. But the pane stood below the
    cursor, so that all below the cursor is erased, and the pane drawn anew.

    Rejected: `rich.live`, which erases, writes text and draws again (each line of text costs a
    view, a prompt without a newline is erased, and what is typed leaves copies of the view in the
    text); an alternate screen (no scrollback, and an empty screen afterwards).
    """

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
