"""The events of a group: kept, written down, and passed to handlers.

Theory of operation. The loop that owns a group notes what happens, and goes on: a disk that hangs,
or a slow handler, must not keep it from ending ranks. So two threads (`Errands`) pass events on, in
their order, after the loop has acted: one writes them down, the other calls handlers. Only handlers
of this library that are known to be quick are called within the loop (`hear`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from procession.system.threads import Errands
from procession.values.events import NO_FACTS, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.output.wiring import RunFiles

    Handler = Callable[[Event], object]

LATE_SECONDS = 5.0  # for disks and handlers, at the end of a group
KEPT = 10_000  # events: a group of single ranks may start them again for weeks


class Journal:
    """The events of one group, in order. Noted in one thread, read in any.

    directory: where they are written down; None: nowhere. keep: how many events are kept, the
    latest ones; at least `KEPT`. disk, handlers: whose threads write, and call handlers. began:
    when the first event was, in nanoseconds of the monotonic clock and in seconds since 1970; None
    if there was none. lost: how many were not passed on, because too many were waiting. late: what
    was still to be written when the group did not wait any longer, in words.
    changed: notified by `publish`, which is to be called after events (not after each one, since
    it wakes all threads that wait; they see no event before), and by `wake`.
    """

    def __init__(self, directory: RunFiles | None, keep: int = 0) -> None:
        self.disk, self.handlers = Errands("procession-disk"), Errands("procession-events")
        self.changed = threading.Condition()
        self.began: tuple[int, float] | None = None
        self.lost = 0
        self.late = ""
        self._events: deque[Event] = deque(maxlen=max(keep, KEPT))
        self._noted = 0  # how many there were
        self._fresh: list[Event] = []  # that are still to be passed on
        self._directory = directory
        self._disk_hangs = False
        self._inside: list[Handler] = []
        self._subscribers: tuple[Handler, ...] = ()
        self._faulty: list[Handler] = []  # that have raised: logged once
        self._over = False
        self._clock_offset = time.time() - time.monotonic()

    def on_fault(self, call: Callable[[BaseException], object]) -> None:
        """Have `call` called with what a thread of ours raises, in that thread."""
        self.disk.on_fault = self.handlers.on_fault = call

    @property
    def events(self) -> list[Event]:
        """The events that are kept, as far as they are published."""
        return list(self._events)

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
        event = Event(kind, rank, attempt, at, at / 1e9 + self._clock_offset, pid, detail, facts)
        if self.began is None:
            self.began = event.at, event.time
        self._fresh.append(event)
        for call in self._inside:
            self._call(call, event)

    def call_inside(self, call: Handler) -> None:
        """Have `call` called with each event, the past ones first, in the thread that notes them.

        It must be quick, and never wait for anything.
        """
        self.publish()
        for event in self.events:
            self._call(call, event)
        self._inside.append(call)

    def subscribe(self, call: Handler) -> None:
        """Have `call` called with each event, the past ones first, in the thread of handlers.

        When all is over, here and now.
        """
        self.publish()
        past = self.events
        if self._over:
            self._tell(past, (call,))
        elif past:
            self.handlers.do_later(
                "calling handlers of events", lambda: self._tell(past, (call,)), always=True
            )
        self._subscribers = (*self._subscribers, call)

    def publish(self) -> None:
        """Pass on what was noted since the last call, and wake the threads that wait for it."""
        if self._fresh:
            self._pass_on()
            self.wake()

    def wake(self) -> None:
        """Wake the threads that wait for `changed`."""
        with self.changed:
            self.changed.notify_all()

    def end(self) -> None:
        """Take note that there will be no more events."""
        self.publish()
        self._over = True
        self.wake()

    # -- at the end

    def on_disk(self, what: str, call: Callable[[], object]) -> bool:
        """Do something with the run's directory, and wait for it; False if that does not answer.

        Then it is done later, if ever, and later calls do not wait for the directory. what: the
        same in words. Raises what `call` raises.
        """
        fault: list[BaseException] = []

        def do() -> None:
            try:
                call()
            except BaseException as e:
                fault.append(e)

        seconds = 0.0 if self._disk_hangs else LATE_SECONDS
        self._disk_hangs = not self.disk.wait(what, do, seconds)
        if fault:
            raise fault[0]
        return not self._disk_hangs

    def wait_until_written(self) -> list[str]:
        """Wait until all is written and handled; gives notes for the report if something is not."""
        said: list[str] = []
        if not self.handlers.wait_until_done(LATE_SECONDS):
            said.append(
                f"{self.handlers.current or 'a handler of events'} did not come to its end within "
                f"{LATE_SECONDS:g} s after the group, which did not wait for it any longer [P410]"
            )
        if self._directory is not None:
            path = self._directory.path
            if not self.on_disk("writing events.jsonl", _nothing):
                self.late = (
                    f"{path} did not answer for {LATE_SECONDS:g} s: what is written there may lack "
                    "its end, and nothing was read there; does its file system hang? [P407]"
                )
        if self.lost:
            said.append(
                f"{self.lost} events were not written down, or not passed on: too many waited "
                "[P407]"
            )
        return said

    def let_threads_go(self) -> None:
        """Wait for the two threads to end; one that hangs ends by itself, later."""
        for each in (self.handlers, self.disk):
            each.end()
            each.join(0.0 if each.current else LATE_SECONDS)

    def follow(self, over: Callable[[], bool]) -> Iterator[Event]:
        """Give every event, from the first that is kept on, until it is `over` and there are none.

        A reader so slow that events were forgotten meanwhile goes on with the first one kept.
        """
        seen = 0
        while True:
            with self.changed:
                while self._noted <= seen and not over():
                    self.changed.wait()
                fresh = list(self._events)[-(self._noted - seen) :] if self._noted > seen else []
                seen = self._noted
            if not fresh:
                return
            yield from fresh

    # -- passing on

    def _pass_on(self) -> None:
        fresh, self._fresh = self._fresh, []
        calls = self._subscribers
        with self.changed:
            self._events.extend(fresh)
            self._noted += len(fresh)
        taken = True
        if self._directory is not None:
            taken = self.disk.do_later("writing events.jsonl", lambda: self._record(fresh))
        if calls:
            taken = (
                self.handlers.do_later(
                    "calling handlers of events", lambda: self._tell(fresh, calls)
                )
                and taken
            )
        if not taken:
            self.lost += len(fresh)

    def _record(self, events: list[Event]) -> None:
        assert self._directory is not None
        for event in events:
            self._directory.write_event(event.as_dict())

    def _tell(self, events: list[Event], calls: tuple[Handler, ...]) -> None:
        for event in events:
            for call in calls:
                self.handlers.current = f"the handler of events {call!r}"
                self._call(call, event)

    def _call(self, call: Handler, event: Event) -> None:
        try:
            call(event)
        except BaseException as e:  # sys.exit() too, which would end this thread
            if call not in self._faulty:
                self._faulty.append(call)
                fault = e
                self.handlers.do_later("logging", lambda: complain(call, fault))


def _nothing() -> None:
    pass


def complain(call: object, e: BaseException) -> None:
    """Log what a handler of events raised: its fault is not the group's."""
    import logging

    logging.getLogger("procession").error(
        "procession: a handler of events raised %s, and further ones of it are not shown: %r "
        "[P410]",
        type(e).__name__,
        call,
        exc_info=e,
    )
