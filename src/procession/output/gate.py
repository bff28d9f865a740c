r"""What ranks write and the console does not show: consequences, and what the report says again.

Theory of operation. **Consequences.** From when a group is ended, because a rank failed or a stop
was asked for, what the other ranks write to stderr is a consequence. It is counted, and its last
bytes are kept for ranks that turn out to have failed by themselves at the same time; these are
shown then. What they write to stdout is shown: those that save say so there.

**Said again.** A rank that raises tells its launcher of the exception before Python prints it, and
the report has its traceback. So what is found of it on the rank's stderr is left out: the whole
traceback, or one of less frames, as it is logged where the exception was caught on its way. What
stands around it stays. The news may come after the text, so text that begins a traceback waits for
it, briefly; a rank whose interpreter crashes writes its frames (`faulthandler`) before it dies,
and they wait for its end. When in doubt, all is shown.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from procession.output.repeated import begins_at, is_crash, plain_lines, without
from procession.values.base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEPT = 64 << 10  # bytes of a rank
BRIEFLY, LONGEST = 0.2, 0.5  # seconds that a traceback waits for news after a line, and in all
DYING = 2.0  # seconds that the frames of a crash wait
KINDS, KIND = 4, 60  # of exceptions that are kept of a rank; characters

_KIND = re.compile(
    rb"(?m)^(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:: [^\n]*)?)$"
)


class HeldLines(Record):
    """What one rank wrote that was not shown, the last of it in blocks.

    size: of these, in bytes. lines: of all. kinds: exceptions that they name, in words.
    """

    blocks: deque[tuple[Any, bytes]]
    kinds: dict[str, None]
    size: int = 0
    lines: int = 0


class _Waiting(Record):
    """The text of a feed that waits for news, since when, and until when."""

    text: bytes
    since: float
    until: float


class Gate:
    """Decides what of the stderr of ranks is shown. For the thread that shows it.

    held: what was not shown of a rank that writes too late.
    """

    def __init__(self) -> None:
        self._closed = False  # for all ranks but these:
        self._free: set[int] = set()
        self.held: dict[int, HeldLines] = {}  # by rank
        self._told: dict[int, list[bytes]] = {}  # by rank: the lines of its traceback
        self._out: dict[int, list[tuple[Any, bytes]]] = {}  # by rank: what was left out
        self._waiting: dict[Any, _Waiting] = {}

    # -- news of the group

    def close(self, free: Sequence[int]) -> None:
        """Show no more of any rank but these."""
        self._closed = True
        self._free.update(free)
        for feed in [*self._waiting]:
            if self._is_held(feed):
                self._keep(feed, self._waiting.pop(feed).text)

    def release(self, ranks: Sequence[int], now: float) -> list[tuple[Any, bytes]]:
        """Let ranks through; gives what was kept of them."""
        self._free.update(ranks)
        kept = [self.held.pop(rank).blocks for rank in ranks if rank in self.held]
        whole: dict[Any, bytes] = {}  # by feed: a dump is written in many parts
        for feed, lines in (block for blocks in kept for block in blocks):
            whole[feed] = whole.get(feed, b"") + lines
        return [(feed, self.let_through(feed, lines, now)) for feed, lines in whole.items()]

    def tell(self, rank: int, traceback: str) -> list[tuple[Any, bytes]]:
        """Learn what the report says of a rank; gives what need not wait any longer.

        traceback: of its exception, "": it was killed by a signal.
        """
        self._told[rank] = plain_lines(traceback.encode(errors="replace"))
        ready = [(feed, self._rest(feed)) for feed in [*self._waiting] if feed.source.rank == rank]
        return [(feed, text) for feed, text in ready if text]

    def count_untold(self, reported: Sequence[int]) -> None:
        """Count what was left out of ranks of which, in the end, the report does not say it."""
        for rank in self._out.keys() - {*reported}:
            for feed, lines in self._out[rank]:
                if lines:
                    self._keep(feed, lines)

    # -- text

    def holds(self, feed: Any) -> bool:
        """Whether a line of a feed that is incomplete is not to be shown."""
        return self._is_held(feed) or feed in self._waiting

    def _is_held(self, feed: Any) -> bool:
        return self._closed and feed.source.rank not in self._free

    def let_through(self, feed: Any, lines: bytes, now: float, shown: int = 0) -> bytes:
        """Give what of some whole lines is to be shown now. shown: so much of the first one is."""
        if self._is_held(feed):
            self._keep(feed, lines)
            return b""
        return self._without_known(feed, lines, now, shown)

    @property
    def due(self) -> float | None:
        """When something has waited long enough, in seconds of the monotonic clock."""
        return min((each.until for each in self._waiting.values()), default=None)

    def give_up(self, now: float | None) -> list[tuple[Any, bytes]]:
        """Give what has waited long enough; now: None for all."""
        over = [f for f, each in self._waiting.items() if now is None or each.until <= now]
        return [(feed, self._waiting.pop(feed).text) for feed in over]

    def _keep(self, feed: Any, lines: bytes) -> None:
        kept = self.held.setdefault(feed.source.rank, HeldLines(deque(), {}))
        kept.blocks.append((feed, lines))
        kept.size += len(lines)
        kept.lines += lines.count(b"\n")
        while kept.size > KEPT and len(kept.blocks) > 1:
            kept.size -= len(kept.blocks.popleft()[1])
        if len(kept.kinds) < KINDS:
            for kind in _KIND.findall(lines):
                said = kind.decode(errors="replace").rstrip(": ")
                kept.kinds[said if len(said) <= KIND else f"{said[: KIND - 3]}..."] = None

    def _without_known(self, feed: Any, lines: bytes, now: float, shown: int) -> bytes:
        waiting, before = self._waiting.get(feed), b""
        if waiting is None:
            at = self._begins_at(feed, lines)
            if at < 0:
                return lines
            if shown > at:  # the beginning of this line cannot wait
                before, lines = lines[:shown] + b"\n", lines[shown:]
            else:
                before, lines = lines[:at], lines[at:]
            waiting = self._waiting[feed] = _Waiting(lines, now, now)
        else:
            waiting.text += lines
        crash = is_crash(waiting.text)
        until = waiting.since + (DYING if crash else LONGEST)
        waiting.until = until if crash else min(now + BRIEFLY, until)
        return before + self._rest(feed)

    def _begins_at(self, feed: Any, text: bytes) -> int:
        told = self._told.get(feed.source.rank)
        return begins_at(text, told[0] if told else b"")

    def _rest(self, feed: Any) -> bytes:
        """Give what waits, without what the report says, if that is known and in there."""
        told, waiting = self._told.get(feed.source.rank), self._waiting[feed]
        if told is None:
            return b""
        kept, out = without(waiting.text.splitlines(keepends=True), told)
        self._out.setdefault(feed.source.rank, []).append((feed, b"".join(out)))
        rest = b"".join(kept)
        at = self._begins_at(feed, rest)
        if at < 0:
            del self._waiting[feed]
            return rest
        waiting.text = rest[at:]
        return rest[:at]
