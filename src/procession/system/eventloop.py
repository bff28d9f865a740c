"""One epoll: descriptors, deadlines, and requests from other threads."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable

Call = Callable[[], None]


class EventLoop:
    """Waits for what is watched, without polling, and calls what belongs to it.

    All but `request` is for the thread that runs the loop.
    """

    def __init__(self) -> None:
        # When the wait returned, and when the one before did: what is told now happened in between.
        self.looked = self.looked_before = time.monotonic_ns()
        self._epoll = select.epoll()
        self._sources: dict[int, Call] = {}
        self._writers: set[int] = set()
        self._deadlines: dict[Hashable, tuple[float, Call]] = {}
        self._requests: deque[Call] = deque()
        self._lock = threading.RLock()  # a signal handler may ask while its thread asks
        try:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._epoll.close()
            raise
        self.watch(self._wake, self._take_requests)

    def watch(self, fd: int, call: Call) -> None:
        """Call `call` whenever `fd` can be read, or has ended."""
        self._epoll.register(fd, select.EPOLLIN)
        self._sources[fd] = call

    def want_write(self, fd: int, wanted: bool) -> None:
        """Say whether a watched `fd` is also waited for until it can be written."""
        if fd in self._sources and wanted != (fd in self._writers):
            self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))
            (self._writers.add if wanted else self._writers.discard)(fd)

    def forget(self, fd: int) -> None:
        """Watch `fd` no longer; to be called before it is closed."""
        if self._sources.pop(fd, None) is not None:
            self._epoll.unregister(fd)
            self._writers.discard(fd)

    def after(self, key: Hashable, seconds: float, call: Call) -> None:
        """Call `call` once, `seconds` from now; replaces what was set for `key`."""
        self._deadlines[key] = time.monotonic() + seconds, call

    def cancel(self, key: Hashable) -> None:
        """Take back what was set for `key`."""
        self._deadlines.pop(key, None)

    def request(self, call: Call) -> bool:
        """Have the loop call `call` soon; from any thread or signal handler, at any time.

        False if the loop is closed; one that closes soon may forget it.
        """
        with self._lock:
            if self._wake >= 0:
                self._requests.append(call)
                os.eventfd_write(self._wake, 1)
            return self._wake >= 0

    def turn(self) -> None:
        """Wait until something is to be done, and do it."""
        patience = None
        if self._deadlines:
            soonest = min(at for at, _ in self._deadlines.values())
            patience = max(0.0, soonest - time.monotonic())
        ready = self._epoll.poll(patience)
        self.looked_before, self.looked = self.looked, time.monotonic_ns()
        for fd, _ in ready:
            call = self._sources.get(fd)  # None: forgotten by a call just before
            if call is not None:
                call()
        now = time.monotonic()
        for key in [k for k, (at, _) in self._deadlines.items() if at <= now]:
            entry = self._deadlines.pop(key, None)
            if entry is not None:
                entry[1]()

    def _take_requests(self) -> None:
        os.eventfd_read(self._wake)
        while self._requests:
            self._requests.popleft()()

    def close(self) -> None:
        """Close its own descriptors; later requests do nothing."""
        self._epoll.close()
        with self._lock:
            wake, self._wake = self._wake, -1
            os.close(wake)
