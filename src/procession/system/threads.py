"""Between threads: work that may block has one of its own, and others wait for what happens once.

Theory of operation. The loop that owns a group must never wait: not for a disk that hangs, and not
for a user's code. What may take long is put into a queue here, and one thread does it in that
order. There is one such thread for disks and one for users' code, so that neither waits for the
other. A thread exists while there is work, or more is expected. A caller may wait until its work
is done, with a time limit; work that takes longer goes on, and `current` says what it is.

Rejected: a thread for each piece of work, and a pool: events must be delivered in order.
"""

from __future__ import annotations

import _thread
import threading
import time
from _queue import SimpleQueue  # the module `queue` would import more
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Work = tuple[str, Callable[[], None]]

MOST_WAITING = 20_000  # pieces of work; more are refused, so that memory has a limit


class Errands:
    """Calls that may block, made one after the other in a thread. Methods are for any thread.

    name: of the thread. current: what is being done, in words for people, "" for nothing. on_fault:
    to be set by the owner; called in the thread with the exception that a call raised.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.current = ""
        self.on_fault: Callable[[BaseException], object] | None = None
        self.thread: threading.Thread | None = None
        self._queue: SimpleQueue[Work] = SimpleQueue()
        self._lock = threading.Lock()  # of `thread`, and of what follows
        self._ending = False

    def do_later(self, what: str, call: Callable[[], None], *, always: bool = False) -> bool:
        """Have `call` called after everything that was queued before.

        what: the call in words. always: queue it even if MOST_WAITING calls are waiting; otherwise
        it is refused then, and False is returned. If no thread can be started, it is called here.
        """
        if not always and self._queue.qsize() >= MOST_WAITING:
            return False
        with self._lock:
            self._queue.put((what, call))
            if self.thread is not None:
                return True
            self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            try:
                self.thread.start()
            except RuntimeError:
                self.thread = None
        if self.thread is None:
            while not self._queue.empty():
                self._do_one()
        return True

    def wait(self, what: str, call: Callable[[], None], seconds: float) -> bool:
        """Queue a call and wait until it is done; False if it takes longer, and is done later."""
        done = Latch()
        self.do_later(what, call, always=True)
        self.do_later("", done.set, always=True)
        return done.wait(seconds)

    def wait_until_done(self, seconds: float) -> bool:
        """Wait until everything queued is done; False if that takes longer."""
        return self.thread is None or self.wait("", _nothing, seconds)

    def end(self) -> None:
        """Let the thread end when the queue is done. More work starts a new one."""
        with self._lock:
            if self.thread is not None and not self._ending:
                self._ending = True
                self._queue.put(("", _nothing))

    def join(self, seconds: float) -> bool:
        """Wait until the thread is gone, after `end`; False if it still runs."""
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _run(self) -> None:
        while True:
            self._do_one()
            with self._lock:
                if self._ending and self._queue.empty():
                    self.thread, self._ending = None, False
                    return

    def _do_one(self) -> None:
        self.current, call = self._queue.get()
        try:
            call()
        except BaseException as e:
            if self.on_fault is None:
                raise
            self.on_fault(e)
        finally:
            self.current = ""


def _nothing() -> None:
    pass


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
