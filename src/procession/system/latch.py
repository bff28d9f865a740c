"""Waiting for something that happens once; an interrupt can break it off at any moment."""

from __future__ import annotations

import _thread


class Latch:
    """Is set once, and then for ever; any number of threads may wait for it.

    `threading.Event` is made of several steps in Python, and a KeyboardInterrupt between two of
    them becomes a RuntimeError, or leaves a lock behind that nobody releases. Here there is one
    step in which a wait can be interrupted, and a lock for each wait.
    """

    def __init__(self) -> None:
        self._set = False
        self._waits: list[_thread.LockType] = []

    def is_set(self) -> bool:
        """Tell whether it has happened."""
        return self._set

    def set(self) -> None:
        """Let it have happened; from any thread."""
        self._set = True
        while self._waits:
            try:
                self._waits.pop().release()
            except IndexError:
                return  # another thread was faster

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has happened, or `timeout` seconds have gone by; tells whether it has."""
        if not self._set:
            lock = _thread.allocate_lock()
            lock.acquire()
            self._waits.append(lock)
            try:
                if not self._set:  # whoever sets it from now on sees this wait
                    lock.acquire(True, -1 if timeout is None else max(0.0, timeout))
            finally:
                if lock in self._waits:
                    self._waits.remove(lock)
        return self._set


__all__ = ["Latch"]
