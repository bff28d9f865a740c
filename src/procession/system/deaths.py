"""The deaths of many processes, seen by their pidfds.

Theory of operation. The forkserver reports each end with its exit status; the pidfd is for the case
that no report comes. All pidfds are in one epoll, which the loop watches as one descriptor. The
first death is noticed at once. A moment later, all pidfds that show a death and were not forgotten
in the meantime are passed on together. So a large group that ends normally costs a few looks, not
one for each rank.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from procession.system.eventloop import EventLoop

MOMENT = 0.01  # seconds that a report has to arrive


class Deaths:
    """Watched pidfds, each with a number; `seen` is called with the numbers of dead processes.

    Each of them is told of once.

    moment: seconds from a death until `seen` is called.
    """

    def __init__(self, loop: EventLoop, seen: Callable[[list[int]], None]) -> None:
        self.moment = MOMENT
        self._loop = loop
        self._seen = seen
        self._epoll = select.epoll()
        self._numbers: dict[int, int] = {}
        loop.watch(self._epoll.fileno(), self._noticed)

    def watch(self, pidfd: int, number: int) -> None:
        """Watch a pidfd."""
        self._numbers[pidfd] = number
        self._epoll.register(pidfd, select.EPOLLIN)

    def forget(self, pidfd: int) -> None:
        """Watch a pidfd no longer; to be called before it is closed."""
        if self._numbers.pop(pidfd, None) is not None:
            self._epoll.unregister(pidfd)

    def _noticed(self) -> None:
        self._loop.forget(self._epoll.fileno())
        self._loop.after(self, self.moment, self._look)

    def _look(self) -> None:
        self._loop.watch(self._epoll.fileno(), self._noticed)
        dead = [pidfd for pidfd, _ in self._epoll.poll(0)]
        numbers = [self._numbers[pidfd] for pidfd in dead]
        for pidfd in dead:
            self.forget(pidfd)
        if numbers:
            self._seen(numbers)

    def close(self) -> None:
        """Close its own descriptor."""
        self._loop.forget(self._epoll.fileno())
        self._loop.cancel(self)
        self._epoll.close()
