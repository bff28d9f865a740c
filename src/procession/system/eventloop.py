"""One epoll: descriptors, deadlines, and requests from other threads."""

from __future__ import annotations

import _thread
import os
import select
import time

from procession.system.files import named

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Hashable

    Call = Callable[[], object]
else:
    from _collections import deque  # `collections` around it takes 1 ms to import

AT_ONCE_NS = 50_000  # a wait that was shorter found something that had happened before
STOPS = 100  # that are remembered
STILL_SECONDS = 0.2  # a wait that is so much too long, without work, means that all stood still
# The longest wait for a deadline. Only what goes beyond a wait shows that all stood still: so at
# most this much of a standstill is taken for time in which others could work.
WAIT_SECONDS = 1.0


class EventLoop:
    """Waits for what is watched, without polling, and calls what belongs to it.

    All but `request` is for the thread that runs the loop.
    """

    def __init__(self, *, timed: bool = False) -> None:
        """timed: it is to be known how late this process wakes up; see `woke_late`."""
        self._timed = timed
        self._delay = 0  # for which this process had waited for a CPU, before the last wait
        # What is reported now happened between `looked_before` and `looked`, even if this thread
        # had to wait long for a CPU.
        self.looked = self.looked_before = self._bound = time.monotonic_ns()
        self.slept = True  # in the last wait: what is reported now happened just then
        # When this process was stopped lately: end and length in ns of the monotonic clock.
        self._stops: deque[tuple[int, int]] = deque(maxlen=STOPS)
        self._sources: dict[int, Call] = {}
        self._first: set[int] = set()
        self._writers: set[int] = set()
        self._deadlines: dict[Hashable, tuple[float, Call]] = {}
        self._held_at = 0.0  # since when no deadline passes, 0 if they do
        self._requests: deque[tuple[Call, bool]] = deque()  # with whether they are certain
        self._lock = _thread.RLock()  # a signal handler may ask while its thread asks
        self._epoll = select.epoll()
        try:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as e:
            self._epoll.close()
            raise named("eventfd", e) from None
        self.watch(self._wake, self._take_requests)

    def watch(self, fd: int, call: Call, *, first: bool = False) -> None:
        """Call `call` whenever `fd` can be read, or has ended.

        first: before descriptors without this flag, and in the order in which they became ready.
        """
        self._epoll.register(fd, select.EPOLLIN)
        self._sources[fd] = call
        if first:
            self._first.add(fd)

    def want_write(self, fd: int, wanted: bool) -> None:
        """Say whether to call the watcher of `fd` also when `fd` can be written."""
        if fd in self._sources and wanted != (fd in self._writers):
            self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))
            (self._writers.add if wanted else self._writers.discard)(fd)

    def forget(self, fd: int) -> None:
        """Watch `fd` no longer; to be called before it is closed."""
        if self._sources.pop(fd, None) is not None:
            self._epoll.unregister(fd)
            self._writers.discard(fd)
            self._first.discard(fd)

    def after(self, key: Hashable, seconds: float, call: Call) -> None:
        """Call `call` once, `seconds` from now; replaces the earlier call for `key`."""
        self._deadlines[key] = (self._held_at or time.monotonic()) + seconds, call

    def cancel(self, key: Hashable) -> None:
        """Cancel the call for `key`."""
        self._deadlines.pop(key, None)

    def cancel_all(self) -> None:
        """Cancel all calls."""
        self._deadlines.clear()

    def stopped_since(self, at: int) -> int:
        """Give for how many ns this process was stopped, of those since a moment.

        at: in ns of the monotonic clock.
        """
        return sum(min(length, end - at) for end, length in self._stops if end > at)

    def put_off(self, seconds: float) -> None:
        """Move all deadlines by the time in which this process was stopped."""
        self._stops.append((time.monotonic_ns(), int(seconds * 1e9)))
        for key, (at, call) in self._deadlines.items():
            self._deadlines[key] = at + seconds, call

    @property
    def holds(self) -> bool:
        """Whether no deadline passes now."""
        return self._held_at > 0

    def hold(self) -> None:
        """Let no deadline pass until `release`."""
        self._held_at = self._held_at or time.monotonic()

    def release(self) -> float:
        """Let deadlines pass again, put off by the seconds for which they did not; gives these."""
        if not self.holds:
            return 0.0
        seconds, self._held_at = time.monotonic() - self._held_at, 0.0
        self.put_off(seconds)
        return seconds

    def request(self, call: Call, *, certain: bool = False) -> bool:
        """Have the loop call `call` soon; from any thread or signal handler, at any time.

        False if the loop is closed. A loop that closes soon may not get to it. certain: it is
        called in any case: when the loop closes, or here if it is closed.
        """
        with self._lock:
            if self._wake >= 0:
                self._requests.append((call, certain))
                os.eventfd_write(self._wake, 1)
                return True
        if certain:
            call()
        return False

    def fail(self, e: BaseException) -> None:
        """Have the loop raise this; from any thread."""

        def throw() -> None:
            raise e

        self.request(throw)

    def turn(self, most: float | None = None) -> bool:
        """Wait until something is to be done, and do it; False if nothing was.

        most: the most seconds to wait, None: any time.
        """
        patience = most
        if self._deadlines and not self.holds and (most is None or most > 0):
            soonest = min(at for at, _ in self._deadlines.values())
            patience = min(max(0.0, soonest - time.monotonic()), WAIT_SECONDS)
        if self._timed and patience != 0:
            self._delay = _delay()
        began, used = time.monotonic_ns(), time.process_time()
        ready = [fd for fd, _ in self._epoll.poll(patience)]
        waited = time.monotonic_ns() - began
        self.slept = waited > AT_ONCE_NS
        if patience is not None:
            self._allow_for_standstill(waited / 1e9 - patience, used)
        # It is not known when these became ready: this thread may have waited for a CPU since. But
        # what a look after a time stamp does not find has not happened before that stamp.
        found = self._look_in_order(ready)
        self._call([each for each in found if each[0] in self._first])
        self._call([each for each in found if each[0] not in self._first])
        now = time.monotonic()
        due = [e for e in self._deadlines.items() if e[1][0] <= now and not self.holds]
        for key, entry in due:
            if self._deadlines.get(key) is entry:  # a call before it may have set another one
                del self._deadlines[key]
                entry[1]()
        return bool(ready or due)

    def _allow_for_standstill(self, late: float, used: float) -> None:
        """Put deadlines off if this process was stopped: frozen, suspended, or by a signal.

        Others were stopped with it, and have had no time to do what they are waited for. late: by
        how many seconds the wait was too long. used: the CPU time of this process before it; one
        whose other threads have kept the interpreter meanwhile was not stopped.
        """
        if late > STILL_SECONDS and time.process_time() - used < late / 2:
            self.put_off(late)

    def woke_late(self) -> int:
        """Give for how many ns this process has waited for a CPU since its last wait began."""
        return max(0, _delay() - self._delay) if self._timed else 0

    def hear_first(self) -> None:
        """Call the watchers of ready descriptors that come first, without waiting."""
        if self._first:
            self._call([each for each in self._look_in_order([]) if each[0] in self._first])

    def _look_in_order(self, before: list[int]) -> list[tuple[int, Call]]:
        """Give what is ready, in the order in which it became ready; `before` is known already."""
        self.looked_before, self._bound = self._bound, time.monotonic_ns()
        ready = [fd for fd, _ in self._epoll.poll(0)]
        self.looked = time.monotonic_ns()
        # A level-triggered epoll moves what it has reported to the end of its list.
        return [(fd, self._sources[fd]) for fd in dict.fromkeys(before + ready)]

    def _call(self, ready: list[tuple[int, Call]]) -> None:
        for fd, call in ready:
            # A call just before may have forgotten it, and watch another one that has its number.
            if self._sources.get(fd) is call:
                call()

    def _take_requests(self) -> None:
        os.eventfd_read(self._wake)
        while self._requests:
            self._requests.popleft()[0]()

    @property
    def own(self) -> tuple[int, int]:
        """Its own descriptors."""
        return self._epoll.fileno(), self._wake

    def leave(self) -> None:
        """Forget everything, in a fork that has closed its descriptors, or is about to."""
        self._wake = -1
        self._epoll.close()

    def close(self) -> None:
        """Close its own descriptors; later requests do nothing."""
        self._epoll.close()
        with self._lock:
            wake, self._wake = self._wake, -1
            os.close(wake)
        while self._requests:
            call, certain = self._requests.popleft()
            if certain:
                call()


def _delay() -> int:
    """Give for how many ns this thread has waited for a CPU, 0 where the kernel does not count."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as f:
            return int(f.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
