"""The deaths of many processes, seen by their pidfds.

Theory of operation. A process's parent tells its launcher of its end, with its status; the pidfd is
for the case that nobody tells. So all pidfds lie in an epoll of their own, which the loop watches
as one descriptor: the first death is noticed at once, and who is dead and has not been forgotten a
moment later is told. A group of many that ends in good order costs a few looks, not one for each.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from procession.system.eventloop import EventLoop

MOMENT = 0.01  # seconds, for the other way to be heard


class Deaths:
    """Pidfds that are watched, each under a number; `seen` is called with it, once.

    moment: seconds from a death until it is told.
    """

    def __init__(self, loop: EventLoop, seen: Callable[[int], None]) -> None:
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
        for pidfd, _ in self._epoll.poll(0):
            number = self._numbers[pidfd]
            self.forget(pidfd)
            self._seen(number)

    def close(self) -> None:
        """Close its own descriptor."""
        self._loop.forget(self._epoll.fileno())
        self._loop.cancel(self)
        self._epoll.close()
