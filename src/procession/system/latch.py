"""Waiting for something that happens once; a KeyboardInterrupt can end the wait at any moment."""

from __future__ import annotations

import _thread
import threading
import time

# A signal that comes between Python's last check and the call that sleeps does not wake it. So the
# main thread, in which handlers run, wakes up every second.
LOOK_UP = 1.0  # seconds


class Latch:
    """Is set once, and stays set; any number of threads may wait for it.

    `threading.Event` is made of several steps in Python, and a KeyboardInterrupt between two of
    them becomes a RuntimeError, or leaves a lock behind that is never released. Here there is one
    step in which a wait can be interrupted, and a lock for each wait.
    """

    def __init__(self) -> None:
        self._set = False
        self._waits: list[_thread.LockType] = []

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, and wake the waiting threads; from any thread."""
        self._set = True
        while self._waits:
            try:
                self._waits.pop().release()
            except IndexError:
                return  # another thread was faster

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for at most `timeout` seconds; tells whether it is."""
        if not self._set:
            lock = _thread.allocate_lock()
            lock.acquire()
            self._waits.append(lock)
            try:
                if not self._set:  # a `set` from now on sees this wait
                    self._sleep(lock, timeout)
            finally:
                if lock in self._waits:
                    self._waits.remove(lock)
        return self._set

    def _sleep(self, lock: _thread.LockType, timeout: float | None) -> None:
        """Wait until the lock is released, or the time is over."""
        # Not `current_thread`: it lists a thread that `threading` has not started, for ever.
        longest = LOOK_UP if _thread.get_ident() == threading.main_thread().ident else -1.0
        until = None if timeout is None else time.monotonic() + timeout
        while not self._set:  # a `set` without memory may have got no further than that
            left = longest if until is None else max(0.0, until - time.monotonic())
            if lock.acquire(True, left if longest < 0 else min(left, longest)) or left == 0.0:
                return
