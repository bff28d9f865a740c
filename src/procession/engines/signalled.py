"""Signals to programs that wait for a group on several machines, and to node processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from procession.system.eventloop import EventLoop


@contextmanager
def orderly_sigterm(stop: Callable[[], object], ended: Callable[[], object]) -> Generator[None]:
    """Have SIGTERM stop the job first, and end this process when the job has ended.

    By default SIGTERM ends this process at once. Node processes take that for the loss of their
    driver, and leave their ranks a second instead of the grace period. A program that handles or
    ignores SIGTERM is left alone, and so is every thread but the main one, in which handlers run.

    stop: asks for the end of the job, and returns at once; called in the signal handler. A SIGTERM
    that follows changes nothing: Slurm sends two at the time limit. ended: waits for the end.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    came: list[int] = []

    def take(number: int, _frame: object) -> None:
        if not came:
            came.append(number)
            stop()

    signal.signal(signal.SIGTERM, take)
    try:
        yield
    finally:
        if came:
            ended()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if came:
            os.kill(os.getpid(), signal.SIGTERM)


class WokenBySignals:
    """Calls `take` in the loop's thread, the main one, for each signal that comes."""

    def __init__(self, loop: EventLoop, take: Any, told: Sequence[int]) -> None:
        self._loop = loop
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._came: list[int] = []
        self._take = take
        self._before = {n: signal.signal(n, self._take_note) for n in told}
        loop.watch(self._read, self._look)
        if told:
            signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def _take_note(self, number: int, _: object) -> None:
        self._came.append(number)

    def _look(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        while self._came:
            self._take(self._came.pop(0))

    def close(self) -> None:
        """Give the signals back to whom they belonged."""
        if self._before:
            signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._loop.forget(self._read)
        os.close(self._read)
        os.close(self._write)
