"""A line now and then, for logs, that says how a group is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from procession.view.seen import Look, Sight
from procession.view.words import status_line


class Status:
    """Says a line every so many seconds, from a thread of its own, until `close`.

    look: as for `View`. say: takes the line, without its newline.
    """

    def __init__(self, look: Callable[[], Look], say: Callable[[str], None], every: float) -> None:
        self._sight = Sight(look)
        self._say = say
        self._every = every
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="procession-status", daemon=True)

    @property
    def started(self) -> bool:
        """Whether it has begun."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Begin; the first line comes after the first interval."""
        self._thread.start()

    def close(self) -> None:
        """Say no more."""
        self._closing.set()
        if self.started:
            self._thread.join(1.0)

    def _run(self) -> None:
        try:
            self._sight.see()  # the beginning of rates
            while not self._closing.wait(self._every):
                self._say(status_line(self._sight.see()))
        except Exception as e:
            self._say(f"procession: the status line failed ({type(e).__name__}: {e}) [P413]")
