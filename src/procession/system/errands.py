"""Work that may block, done in order in a thread of its own.

Theory of operation. The loop that owns a group must never wait: not for a disk that hangs, and not
for a user's code. What may take long is put into a queue here, and one thread does it in that
order. There is one such thread for disks and one for users' code, so that neither waits for the
other. A thread exists while there is work, or more is expected. A caller may wait until its work
is done, with a time limit; work that takes longer goes on, and `current` says what it is.

Rejected: a thread for each piece of work, and a pool: events must be delivered in order.
"""

from __future__ import annotations

import threading
from _queue import SimpleQueue  # the module `queue` would import more
from collections.abc import Callable

from procession.system.latch import Latch

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

    def do(self, what: str, call: Callable[[], None], *, always: bool = False) -> bool:
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
            self._work_off()
        return True

    def wait(self, what: str, call: Callable[[], None], seconds: float) -> bool:
        """Queue a call and wait until it is done; False if it takes longer, and is done later."""
        done = Latch()

        def both() -> None:
            call()
            done.set()

        self.do(what, both, always=True)
        return done.wait(seconds)

    def settle(self, seconds: float) -> bool:
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

    def _work_off(self) -> None:
        while not self._queue.empty():
            self._do_one()

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
