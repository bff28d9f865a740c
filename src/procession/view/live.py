"""Threads that look at a group and show it: on a terminal, or by a line now and then, for logs.

An error in one ends it, never the group.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from procession.output.console import Console
from procession.view.pane import Pane
from procession.view.seen import Look, Sight, Whole
from procession.view.words import status_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.view.draw import Drawing

EVERY = 0.5  # seconds between two looks
LONGEST_CLOSE = 3.0  # seconds that a look, or a terminal that does not read, may take at the end
LONGEST_HIDE = 1.0
START_OF_LINE = "\r\x1b[K"


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
