"""The live view of a group on a terminal: a thread that looks, and draws what has changed.

It looks at most four times a second, and once a second while nothing changes but the time. An error
in it ends the view, never the group.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping

from procession.output.console import Console
from procession.view.pane import Pane
from procession.view.rows import fold
from procession.view.seen import Whole
from procession.view.sight import Sight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.view.draw import Drawing

BUSY, IDLE = 0.25, 1.0  # seconds between two looks
LONGEST_CLOSE = 3.0  # seconds that a look, or a terminal that does not read, may take at the end
START_OF_LINE = "\r\x1b[K"
LONGEST_HIDE = 1.0
LEAST_ROWS = 5  # of a terminal that has room for more than one line


class View:
    """Shows a group on the terminal of `console`, below the text that is written there.

    look: gives what is known of the group; see `group.looking.look_at` for the keys. Called in
        the view's thread; what it raises ends the view.
    console: writes to the terminal; nothing else may while the view is shown. The caller closes it.
    on_crash: called in the view's thread with the error that ended the view, when it is off the
        terminal.
    unicode: whether the terminal shows more than ASCII.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[str, Any]],
        console: Console,
        *,
        on_crash: Callable[[Exception], None] | None = None,
        unicode: bool = True,
    ) -> None:
        self._sight = Sight(look)
        self._console = console
        self._pane = Pane(console)
        self._on_crash = on_crash
        self._unicode = unicode
        self._last: Mapping[str, Any] | None = None  # shown at the end, if there is one
        self._drawing: Drawing | None = None
        self._seen: Whole | None = None
        self._closing = self._hidden = False
        self._gone = False  # from the terminal, while it is hidden
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="procession-view", daemon=True)

    def start(self) -> None:
        """Begin to show it."""
        self._thread.start()

    def wake(self) -> None:
        """Look now, since something has happened (or the terminal's size has changed).

        From any thread, and from signal handlers.
        """
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def remember(self) -> None:
        """Look now, and show this as the last state: soon there is nothing left to look at."""
        try:
            self._last = self._sight.look()
        except Exception:
            pass  # then the last state is the one before

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
        self._sight.close()
        if not self._thread.is_alive():
            fd, self._wake = self._wake, -1
            os.close(fd)

    # In the thread.

    def _run(self) -> None:
        try:
            from procession.view.draw import Drawing

            self._drawing = Drawing(colour=self._console.colour, unicode=self._unicode)
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            pause = 0.0
            while not self._closing:
                if poll.poll(pause * 1000):
                    os.eventfd_read(self._wake)
                if self._hidden and not self._closing:
                    self._pane.clear()
                    self._gone = True
                    pause = IDLE
                    continue
                began = time.monotonic()
                pause = BUSY if self._turn() else IDLE
                while (
                    not (self._closing or self._hidden)
                    and (left := began + BUSY - time.monotonic()) > 0
                ):  # at most one look in this time
                    if poll.poll(left * 1000):
                        os.eventfd_read(self._wake)
                        pause = 0.0
                pause = max(0.0, pause - (time.monotonic() - began))
            self._leave()
        except Exception as e:
            self._crashed(e)

    def _turn(self) -> bool:
        """Look and draw; tell whether more than the time has changed."""
        whole = self._sight.see()
        size = self._pane.size()
        self._pane.show(self._lines(whole, size, size[1] // 2), size)
        before, self._seen = self._seen, whole
        return before is None or _timeless(before) != _timeless(whole)

    def _lines(self, whole: Whole, size: tuple[int, int], most: int) -> list[str]:
        assert self._drawing is not None
        width = max(1, size[0] - 1)  # the last column makes some terminals go to the next line
        below = [self._drawing.summary(whole, width)]
        ending = self._drawing.ending(whole, width)
        if size[1] < LEAST_ROWS:
            return [ending or below[0]]
        if ending:
            below.append(ending)
        room = most - len(below) - 1
        if room < 1 or not whole.ranks:
            return below
        return [*self._drawing.lines(whole, fold(whole.ranks, room), width), *below]

    def _leave(self) -> None:
        """Leave the last state behind, as text."""
        self._pane.clear()
        whole = self._seen if self._last is None else self._sight.recall(self._last)
        if whole is None or self._hidden:
            return
        size = self._pane.size()
        lines = self._lines(whole, size, max(4, size[1] // 2))
        # The console does not know what the terminal itself has written (^C).
        start = "\r\n" if self._console.midline else START_OF_LINE
        text = start + "".join(f"{line.rstrip()}\r\n" for line in lines)
        self._console.write(text.encode(errors="replace"), timeout=1.0)

    def _crashed(self, e: Exception) -> None:
        try:
            self._pane.clear()
            if self._on_crash is not None:
                self._on_crash(e)
        except Exception:
            pass  # nothing more can be done about it


def _timeless(whole: Whole) -> object:
    return [(r.state, r.ended, r.step, r.fields, r.last_line, r.usage) for r in whole.ranks], (
        whole.state,
        whole.attempt,
        whole.cause,
        whole.to_kill is None,
    )
