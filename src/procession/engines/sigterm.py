"""SIGTERM to a Python program that waits for a job, and does not handle that signal itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


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
