"""Programs of ranks; a module of its own, so that ranks import nothing else."""

import os
import signal
import sys
import time


def fail_or_wait(loser, way, after):
    if int(os.environ["RANK"]) != loser:
        while True:
            signal.pause()
    end = time.monotonic() + after
    while time.monotonic() < end:
        time.sleep(0)
    if way == "exception":
        raise ArithmeticError(loser)
    if way == "exit":
        sys.exit(7)
    os.kill(os.getpid(), signal.SIGKILL if way == "kill" else signal.SIGSEGV)


def stay():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(100)


def family():
    """Have two children, a daemon in a session of its own, and a child of that; none obeys."""
    for _ in range(2):
        if not os.fork():
            stay()
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        if not os.fork():
            stay()
        stay()
    stay()
