"""What happens to a group, event by event: kept, written down, and told to who wants to hear."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from procession.events import Event


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
        self._subscribers: list[Callable[[Event], None]] = []
        self._clock_offset = time.time() - time.monotonic()

    def note(
        self,
        kind: str,
        rank: int | None,
        attempt: int,
        at: int | None = None,
        pid: int | None = None,
        detail: str = "",
    ) -> None:
        """Add an event; see `Event`. at: None for now."""
        at = time.monotonic_ns() if at is None else at
        event = Event(kind, rank, attempt, at, at / 1e9 + self._clock_offset, pid, detail)
        self._write(event)
        self.events.append(event)
        self._fresh = True
        for call in self._subscribers:
            _call(call, event)

    def subscribe(self, call: Callable[[Event], None]) -> None:
        """Have `call` called with each event, the past ones first; in the thread that writes."""
        for event in self.events:
            _call(call, event)
        self._subscribers.append(call)

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


def _call(call: Callable[[Event], None], event: Event) -> None:
    try:
        call(event)
    except Exception:
        pass  # a subscriber's fault is not the group's
