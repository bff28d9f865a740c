"""Ranks of a run that are debugged: where they have stopped, and what was said since.

Theory of operation. A rank that stops passes a socket to its launcher, by its agent; ranks of other
machines talk by the link. What a rank says is kept until it is answered: whoever comes to debug it
sees why it has stopped. See `worker.debugging` for what is said.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from procession.values.base import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Said = dict[str, Any]

MOST_KEPT = 1000  # things that a rank has said since its last line
MOST_LINE = 4 << 20  # bytes


class Debugged:
    """The ranks of a run that are debugged, or were. For the loop's thread.

    changed: called when a rank has stopped, and when one is not stopped any more; with None when
    somebody has left who debugged them. stopped: those that are, the first one first, each with
    what it said of that. listeners: take what ranks say.
    """

    def __init__(self, changed: Callable[[int | None], None]) -> None:
        self._changed = changed
        self.stopped: dict[int, Said] = {}
        self.listeners: list[Callable[[int, Said], None]] = []
        self._senders: dict[int, Callable[[bytes], object]] = {}
        self._kept: dict[int, list[Said]] = {}
        self._rest: dict[int, bytes] = {}  # of a line

    # -- from ranks

    def begin_talk(self, rank: int, send: Callable[[bytes], object], why_not: str) -> None:
        """Talk with a rank. send: sends it something. why_not: why nobody can, or ""."""
        self._senders[rank], self._kept[rank], self._rest[rank] = send, [], b""
        self.tell(rank, {"refused": why_not} if why_not else {"welcome": True})

    def take_data(self, rank: int, data: bytes) -> None:
        """Take what a rank sends, b"" when it has ended."""
        if not data:
            self._gone(rank)
            return
        *lines, rest = (self._rest[rank] + data).split(b"\n")
        self._rest[rank] = rest if len(rest) <= MOST_LINE else b""
        for line in lines:
            self._take_line(rank, line)

    def _take_line(self, rank: int, line: bytes) -> None:
        import json  # no launcher needs it unless a rank is debugged

        read: Any = None
        with suppress(ValueError, RecursionError):
            read = json.loads(line)
        if not isinstance(read, dict):
            return  # the program has written to the socket
        said = cast("Said", read)
        if not isinstance(said.get("stopped", {}), dict):
            return
        if "goes_on" in said:
            self._resumed(rank)
        elif len(self._kept[rank]) < MOST_KEPT:
            self._kept[rank].append(said)
        for listener in [*self.listeners]:
            listener(rank, said)
        if "stopped" in said and rank not in self.stopped:
            self.stopped[rank] = said["stopped"]
            self._changed(rank)

    def _gone(self, rank: int) -> None:
        self._senders.pop(rank, None)
        for listener in [*self.listeners]:
            listener(rank, {"gone": True})
        self._resumed(rank)

    def _resumed(self, rank: int) -> None:
        self._kept[rank] = []
        if self.stopped.pop(rank, None) is not None:
            self._changed(rank)

    def where(self, rank: int, run: str) -> str:
        """Say where a rank has stopped, and how to reach it. run: the id of its run."""
        at = self.stopped[rank]
        place = " at " * bool(at.get("where")) + str(at.get("where", ""))
        return (
            f"procession: rank {rank} stopped{place} ({at.get('why')}); debug it with: "
            f"procession debug {run} [P429]"
        )

    # -- from who debugs them

    def tell(self, rank: int, said: Said) -> None:
        """Say something to a rank that has stopped."""
        import json

        send = self._senders.get(rank)
        if send is None:
            return
        if "line" in said:
            self._kept[rank] = []
        with suppress(OSError):  # it does not read, or is gone
            send(json.dumps(said).encode() + b"\n")

    def join(self, listener: Callable[[int, Said], None]) -> None:
        """Have somebody hear what ranks say, and first what those have said that have stopped."""
        self.listeners.append(listener)
        for rank in self.stopped:
            for said in self._kept[rank]:
                listener(rank, said)
        listener(-1, {"joined": True})

    def leave(self, listener: Callable[[int, Said], None]) -> None:
        """Have somebody hear nothing more, who has joined or wanted to.

        A rank may have stopped when they were about to leave.
        """
        if listener in self.listeners:
            self.listeners.remove(listener)
        self._changed(None)
