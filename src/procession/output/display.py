"""What a group shows on our own standard output and error: of its ranks, and lines of our own.

Ranks of this machine are followed (`wiring`); blocks of other machines come ready to be shown.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.console import Console
    from procession.output.follow import Follower
    from procession.output.recent import Recent


class Display:
    """Two consoles, and the follower that shows on them what is to be shown.

    prefixes: what stands before the lines of each rank. recent: what was shown last, after `tap`,
        None where ranks write past this process.
    on_quiet: to be set before ranks are started; called once, in the thread that shows their
        output, when the reader of our standard output is found to have gone.
    on_shown: to be set before `show` is used; see `Follower`.
    """

    on_quiet: Callable[[], None] | None = None
    on_shown: Callable[[list[tuple[object, int]]], None] | None = None
    recent: Recent | None = None
    _consoles: tuple[Console, Console] | None = None
    _lent = False  # the consoles are the caller's
    _closed = False
    _fault: Exception | None = None  # of an earlier follower
    _follower: Follower | None = None

    def __init__(self, prefixes: Sequence[str]) -> None:
        self.prefixes = prefixes

    def open_consoles(self) -> None:
        """Show both streams. In the thread that wrote there before: it flushes what waits there."""
        from procession.output.console import Console

        self._consoles = Console(sys.stdout, self._went_quiet), Console(sys.stderr)

    def _went_quiet(self) -> None:
        if self.on_quiet is not None:
            self.on_quiet()

    def get_follower(self) -> Follower:
        """Give what shows output now; started by the first call. Raises OSError."""
        if self._consoles is None or self._closed:
            raise OSError(errno.ESHUTDOWN, "the group is over")
        if self._follower is None or self._follower.over:
            from procession.output.follow import Follower

            if self._follower is not None:
                self._fault = self._fault or self._follower.fault
            self._follower = Follower(*self._consoles, on_shown=self.on_shown)
        return self._follower

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr; not within a line of a rank."""
        if self._follower is not None:
            self._follower.say(line)
        elif self._consoles is not None:
            self._consoles[1].write(line, timeout=1.0)

    def tap(self) -> None:
        """Keep what is shown last in `recent`, for other terminals; not what ranks write directly.

        To be used before ranks are started.
        """
        if self._consoles is not None:
            from procession.output.recent import Recent

            self.recent = Recent()
            # If both are one console, all that it shows is of stdout.
            for console, stream in zip(self._consoles[::-1], ("err", "out"), strict=True):
                console.seen_by = partial(self.recent.add, stream=stream)

    def finish(self, ended: Callable[[], object]) -> None:
        """Begin to show what is still to be shown; see `Follower.finish`."""
        if self._follower is None:
            ended()
        else:
            self._follower.finish(ended)

    @property
    def shown(self) -> int:
        """How many bytes the consoles have taken so far."""
        return 0 if self._follower is None else self._follower.shown

    def drain(self, timeout: float | None, *, stalled: bool = False) -> bool:
        """Show what is still to be shown; False if it was cut off. See `Follower.drain`."""
        return self._follower is None or self._follower.drain(timeout, stalled=stalled)

    @property
    def faults(self) -> list[str]:
        """What of the output was lost on our own streams, and why; also when all is closed."""
        if self._consoles is None:
            return []
        found = [
            f"output of ranks is lost: the standard {name} did not take all ({console.fault}) "
            "[P407]"
            for console, name in zip(self._consoles, ("output", "error"), strict=True)
            if console.fault
        ]
        fault = self._fault or (self._follower.fault if self._follower is not None else None)
        if fault is not None:
            said = f"an error in procession's own thread for it ({type(fault).__name__}: {fault})"
            found.append(f"the output of the ranks was not shown to its end: {said} [P407]")
        return found

    def _close_consoles(self) -> None:
        if not self._lent:
            for console in self._consoles or ():
                console.close()

    def close(self) -> None:
        """Close everything."""
        self._closed = True
        if self._follower is not None:
            self._follower.close()
        self._close_consoles()
