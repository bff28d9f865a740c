"""Signalling and reaping one child of this process, without hitting another process.

It may also be a process that somebody else has started (`own=False`): then nobody can reap it here,
and its end is all there is to wait for. Its pid may be used again, so without a pidfd nothing is
sent to it.

A child is addressed by its pidfd. Where there is none (no descriptor is left, or a container's
filter refuses `pidfd_open`), its pid is used. The kernel does not reuse that before the child is
reaped here; only a program that reaps all its children itself (`waitpid(-1)`) could change that.
"""

from __future__ import annotations

import os
import select
import signal
import time

from procession.system.processes import status_of_zombie

LOOK_EVERY = 0.005  # seconds, where there is no pidfd


class Child:
    """A child process. own: it was started by this process, which is to reap it.

    pidfd: a descriptor of it, -1 where there is none, or other code has closed it.
    """

    def __init__(self, pid: int, *, own: bool = True) -> None:
        self.pid = pid
        self.own = own
        self.pidfd = -1
        try:
            self.pidfd = os.pidfd_open(pid)
            signal.pidfd_send_signal(self.pidfd, 0)
        except OSError:  # one of the calls is refused
            self.close()

    def signal(self, number: int) -> None:
        """Signal it, if it is there."""
        try:
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, number)
            elif self.own:
                os.kill(self.pid, number)
        except OSError:
            pass  # gone

    def reaped(self, timeout: float) -> bool:
        """Wait for its end, and reap it; False if it has not ended within `timeout` seconds."""
        until = time.monotonic() + timeout
        if self.pidfd >= 0:
            # A debugger may still hold a dead child: then it cannot be reaped yet.
            return self._ends(timeout) and self._reap()
        while self.own and not self._reap():
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK_EVERY)
        return True

    def ending(self, timeout: float) -> str:
        """Wait for its end without reaping it; gives it in words, "" if it is not seen in time."""
        from procession.values.errors import Exit

        if self.pidfd >= 0:
            self._ends(timeout)
        status = status_of_zombie(self.pid)
        return "" if status is None else str(Exit.from_wait_status(status))

    def _ends(self, timeout: float) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def _reap(self) -> bool:
        if not self.own:
            return True
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True  # the program reaped it with waitpid(-1)

    def close(self) -> None:
        """Close its descriptor."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
