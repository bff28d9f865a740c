r"""A console on which equal lines of several ranks are one, and so are their progress bars.

Theory of operation. What ranks write passes through `fold.Fold`, which says what is together and
when it is shown. A progress bar is a line that replaces itself by `\r`. Those of all ranks are one,
that of the rank that is furthest behind: a terminal shows it below everything else and rewrites it
in place; elsewhere, it is a line now and then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from procession.output.feed import Feed
from procession.output.fold import Fold
from procession.output.screen import Screen
from procession.output.text import harmless, uncoloured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.output.console import Console

REDRAWN, SAID = 0.1, 1.0  # seconds between two states of a bar: in place, and as lines
OFTEN = 0.25  # seconds between two states of one rank's bar
LONGEST_BAR = 500  # bytes
CLEAR = b"\r\x1b[K"
NO_WRAP, WRAP = b"\x1b[?7l", b"\x1b[?7h"  # a line that is too long ends at the edge (DECAWM)
_PERCENT = re.compile(rb"(\d+(?:\.\d+)?) ?%")
_OF = re.compile(rb"(\d+) ?/ ?(\d+)")


class FoldingScreen(Screen):
    """Shows equal lines once. fold: says which. prefix_of: gives what stands before lines of ranks.

    in_place: the console is a terminal that shows nothing else.
    """

    def __init__(
        self,
        console: Console,
        fold: Fold,
        prefix_of: Callable[[Sequence[int]], bytes],
        *,
        in_place: bool,
    ) -> None:
        super().__init__(console)
        self._fold = fold
        self._prefix_of = prefix_of
        self._in_place = in_place
        self.progress_every = OFTEN if in_place else None
        self._prefixes: dict[int, bytes] = {}
        self._bars: dict[int, bytes] = {}  # by rank: the state of its line
        self._drawn = b""  # what stands below everything
        self._bar_at = 0.0  # when it was shown last
        self._changed = False

    @property
    def due(self) -> float | None:
        """When it is to be flushed, None while nothing waits."""
        every = REDRAWN if self._in_place else SAID
        bar = self._bar_at + every if self._changed and (self._in_place or self._bars) else None
        return min((at for at in (self._fold.due, bar) if at is not None), default=None)

    def lines(self, owner: object, prefix: bytes, lines: bytes, continues: bool = False) -> None:
        """See `Screen`; those of a rank may wait for others."""
        if not isinstance(owner, Feed):
            self._show(None)
            super().lines(owner, prefix, lines, continues)
            return
        rank = owner.source.rank
        self._prefixes[rank] = prefix
        self._changed = self._bars.pop(rank, None) is not None or self._changed
        if continues:
            self._show(None)
            super().lines(owner, prefix, lines, continues)
        else:
            self._fold.add(rank, lines, time.monotonic())
            if self._fold.crowded:
                self._show(None)

    def partial(self, owner: object, prefix: bytes, text: bytes, continues: bool = False) -> None:
        """See `Screen`."""
        self._show(None)
        super().partial(owner, prefix, text, continues)

    def progress(self, owner: object, prefix: bytes, state: bytes) -> bool:
        """See `Screen`."""
        assert isinstance(owner, Feed)
        rank = owner.source.rank
        self._prefixes[rank], self._bars[rank] = prefix, state
        self._changed = True
        return False

    def flush(self, abandon: int | None = None) -> bool:
        """See `Screen`."""
        now = time.monotonic()
        self._show(now)
        if self._in_place:
            self._draw(now)
        elif self._changed and self._bars and now - self._bar_at >= SAID:
            self._show(None)
            super().lines(None, *self._bar())
            self._bar_at, self._changed = now, False
        return super().flush(abandon)

    def finish(self) -> None:
        """See `Screen`."""
        self._show(None)
        if self._drawn:
            self._parts.insert(0, CLEAR)
            self._drawn = b""
        if self._bars:  # of programs that were ended in their middle
            super().lines(None, *self._bar())
            self._bars.clear()
        super().finish()

    def _show(self, now: float | None) -> None:
        for ranks, lines in self._fold.take_due(now):
            super().lines(None, self._of(ranks), lines)

    def _of(self, ranks: Sequence[int]) -> bytes:
        return self._prefixes[ranks[0]] if len(ranks) == 1 else self._prefix_of(ranks)

    def _bar(self) -> tuple[bytes, bytes]:
        """Give the bar that is furthest behind: its prefix, and it as a line."""
        last = min(self._bars, key=lambda rank: (_part_done(self._bars[rank]), rank))
        prefix = self._of(sorted(self._bars))
        who = b"" if len(self._bars) == 1 else b"  (%s)" % uncoloured(self._prefixes[last]).strip()
        return prefix, self._bars[last] + who + b"\n"

    def _draw(self, now: float) -> None:
        bar = self._drawn
        if self._changed and now - self._bar_at >= REDRAWN:
            bar, self._changed = b"", False
            if self._bars:
                prefix, line = self._bar()
                line = uncoloured(harmless(line.rstrip(b"\n")))[:LONGEST_BAR]
                bar = NO_WRAP + prefix + line + WRAP
        if self._drawn and (self._parts or bar != self._drawn):
            self._parts.insert(0, CLEAR)
            self._drawn = b""
        if bar and not self._drawn and self._open is None:
            self._add(bar)
            self._drawn, self._bar_at = bar, now


def _part_done(state: bytes) -> float:
    """Give how much of its work a progress bar says is done, in percent; 0 if it does not say."""
    if percent := _PERCENT.search(state):
        return float(percent[1])
    if (of := _OF.search(state)) and int(of[2]):
        return 100 * int(of[1]) / int(of[2])
    return 0.0
