"""The process for which an agent works: its launcher, or a later one.

Theory of operation. An agent exits when its owner is gone. The first owner is its parent, whose
end the kernel shows in three ways: by its pidfd, by `getppid`, and by the parent-death signal
(SIGCONT), which also wakes an agent that is stopped, and arrives in the middle of an import. A
later owner is not its parent. Then the pidfd wakes the loop; and since there is no parent-death
signal, the socket is set to send SIGCONT when something happens to it (F_SETSIG), above all when it
is closed. A SIGCONT without a handler does nothing to a running process.

Until an agent has begun, and set its parent-death signal, its launcher has set the socket in
that way for it. If the launcher is killed before it could do so, nobody wakes an agent that was
stopped just then. Nor one that is a fork of its launcher, until it has begun: it has copies of both
ends of that socket.
"""

from __future__ import annotations

import os

from procession.agent.protocol import is_readable
from procession.system.prctl import hear_of_parents_end
from procession.system.processes import pidfd_of, wake

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    import _socket as socket

    from procession.system.eventloop import EventLoop


class Owner:
    """The owner. pidfd: its, -1 where there is none; then the parent-death signal shows its end."""

    def __init__(self, parent: int) -> None:
        """parent: its pid; it has started this process, see `take`."""
        self._parent = parent
        self.pidfd = pidfd_of(parent)

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        if self._parent:
            return os.getppid() != self._parent
        return is_readable(self.pidfd)

    def leave(self, loop: EventLoop) -> None:
        """Work for nobody. loop: watches the owner. Raises OSError."""
        hear_of_parents_end(0)
        if self.pidfd >= 0:
            loop.forget(self.pidfd)
            os.close(self.pidfd)
        self._parent, self.pidfd = 0, -1

    def change_to(self, pid: int, sock: socket.socket) -> None:
        """Work for another process, which is not the parent. sock: to it. Raises OSError."""
        self.pidfd = os.pidfd_open(pid)
        wake(sock.fileno(), os.getpid())
