"""The live view of a group on a terminal: a thread that looks, and draws what has changed.

It wakes at most four times a second, and once a second while nothing changes but the time. Whatever
goes wrong in it is the end of the view, never of the group.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping

from procession.output.console import Console
from procession.view.pace import Pace
from procession.view.pane import Pane
from procession.view.rows import fold
from procession.view.seen import Usage, Whole, see
from procession.view.usage import Sampler

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

    look: gives what is known of the group; see `procession.looking.look_at` for the keys. Called in
        the view's thread; what it raises ends the view.
    console: through which alone the terminal is written to while the view is there; it stays the
        caller's.
    fd: a descriptor of the terminal, which is asked for its size.
    on_crash: called, in the view's thread, with what ended it, when it has gone.
    usage: gives what ranks use, by rank, from their processes by rank; by default /proc is asked.
    unicode: whether the terminal shows more than ASCII.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[str, Any]],
        console: Console,
        *,
        fd: int = 1,
        on_crash: Callable[[Exception], None] | None = None,
        usage: Callable[[Mapping[int, int]], Mapping[int, Usage]] | None = None,
        unicode: bool = True,
    ) -> None:
        self._look = look
        self._console = console
        self._pane = Pane(console, fd)
        self._on_crash = on_crash
        self._sampler = Sampler()
        self._usage = usage or self._sampler.usage
        self._unicode = unicode
        self._pace = Pace()
        self._last: Mapping[str, Any] | None = None  # that counts at the end
        self._drawing: Drawing | None = None
        self._seen: Whole | None = None
        self._closing = self._hidden = False
        self._gone = False  # from the terminal, while it is hidden
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="procession-view", daemon=True)

    def start(self) -> None:
        """Begin to show it."""
        self._thread.start()

    def log(self, data: bytes) -> None:
        """Show whole lines of text above the view, for a caller with no console of ranks."""
        self._console.write(data)

    def wake(self) -> None:
        """Look now, since something has happened (or the terminal's size has changed).

        From any thread, and from signal handlers.
        """
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def remember(self) -> None:
        """Look, and take this for the last state of the group: what is seen of it goes soon."""
        try:
            self._last = self._look()
        except Exception:
            pass  # then the last state is the one before

    def hide(self) -> None:
        """Take the view off the terminal, until `unhide`; returns when it is gone.

        Without a lock, for it is called by a handler of a signal, which may come into itself.
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
        self._sampler.close()
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
                pause = BUSY if self._turn(self._look()) else IDLE
                while (
                    not (self._closing or self._hidden)
                    and (left := began + BUSY - time.monotonic()) > 0
                ):  # so much rest there is, whatever happens
                    if poll.poll(left * 1000):
                        os.eventfd_read(self._wake)
                        pause = 0.0
                pause = max(0.0, pause - (time.monotonic() - began))
            self._leave()
        except Exception as e:
            self._crashed(e)

    def _turn(self, look: Mapping[str, Any]) -> bool:
        """Draw what there is to be seen; tells whether more than the time has changed."""
        whole = self._see(look)
        size = self._pane.size()
        self._pane.show(self._lines(whole, size, size[1] // 2), size)
        before, self._seen = self._seen, whole
        return before is None or _timeless(before) != _timeless(whole)

    def _see(self, look: Mapping[str, Any]) -> Whole:
        pids = {r["rank"]: r["pid"] for r in look["ranks"] if r["pid"] and r["exit"] is None}
        return see(look, time.time(), self._pace, self._usage(pids) if pids else {})

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
        look = self._last
        whole = self._seen
        if look is not None:
            whole = see(look, time.time(), self._pace)
        if whole is None or self._hidden:
            return
        size = self._pane.size()
        lines = self._lines(whole, size, max(4, size[1] // 2))
        # What the terminal itself has put there (^C) is not known to the console.
        start = "\r\n" if self._console.midline else START_OF_LINE
        text = start + "".join(f"{line.rstrip()}\r\n" for line in lines)
        self._console.write(text.encode(errors="replace"), timeout=1.0)

    def _crashed(self, e: Exception) -> None:
        try:
            self._pane.clear()
            if self._on_crash is not None:
                self._on_crash(e)
        except Exception:
            pass  # there is nobody left to be told


def _timeless(whole: Whole) -> object:
    return [(r.state, r.ended, r.step, r.fields, r.last_line, r.usage) for r in whole.ranks], (
        whole.state,
        whole.attempt,
        whole.cause,
        whole.to_kill is None,
    )


__all__ = ["View"]
