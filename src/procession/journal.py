"""What happens to a group, event by event: kept, written down, and told to who wants to hear."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

from procession.events import NO_FACTS, Event, Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Journal:
    """The events of one group, in order. Written in one thread, read in any.

    changed: notified by `tell`, which is to be called after events (not after each one, since it
    wakes whoever waits), and by `wake`.
    """

    def __init__(self, write: Callable[[Event], None]) -> None:
        self.events: list[Event] = []
        self.changed = threading.Condition()
        self._write = write
        self._fresh = False  # there are events that `changed` was not notified of
        self._subscribers: list[Callable[[Event], object]] = []
        self._faulty: list[Callable[[Event], object]] = []  # that have raised, which was logged
        self._clock_offset = time.time() - time.monotonic()

    def note(
        self,
        kind: str,
        rank: int | None,
        attempt: int,
        at: int | None = None,
        pid: int | None = None,
        detail: str = "",
        facts: Mapping[str, Any] = NO_FACTS,
    ) -> None:
        """Add an event; see `Event`. at: None for now."""
        at = time.monotonic_ns() if at is None else at
        event = Event(
            kind, rank, attempt, at, at / 1e9 + self._clock_offset, pid, detail, Facts(facts)
        )
        self._write(event)
        self.events.append(event)
        self._fresh = True
        for call in self._subscribers:
            self._call(call, event)

    def subscribe(self, call: Callable[[Event], object]) -> None:
        """Have `call` called with each event, the past ones first; in the thread that writes."""
        for event in self.events:
            self._call(call, event)
        self._subscribers.append(call)

    def _call(self, call: Callable[[Event], object], event: Event) -> None:
        try:
            call(event)
        except Exception as e:
            if call not in self._faulty:
                self._faulty.append(call)
                complain(call, e)

    def wake(self) -> None:
        """Let those look up who wait for `changed`."""
        with self.changed:
            self.changed.notify_all()

    def tell(self) -> None:
        """Let those look up, if there were events since."""
        if self._fresh:
            self._fresh = False
            self.wake()

    def follow(self, over: Callable[[], bool]) -> Iterator[Event]:
        """Give every event, from the first on, until it is `over` and there are no more."""
        seen = 0
        while True:
            with self.changed:
                while len(self.events) <= seen and not over():
                    self.changed.wait()
                fresh = self.events[seen:]
            if not fresh:
                return
            seen += len(fresh)
            yield from fresh


def complain(call: object, e: Exception) -> None:
    """Log what a handler of events raised: its fault is not the group's."""
    import logging

    logging.getLogger("procession").error(
        "procession: a handler of events raised %s, and further ones of it are not shown: %r",
        type(e).__name__,
        call,
        exc_info=e,
    )
