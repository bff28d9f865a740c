"""Ranks with children and daemons; a module that ranks import, and a launcher: family.py METHOD.

As a script with RANK in its environment it is a rank.
"""

from __future__ import annotations

import os
import signal
import sys
import time

OBEYS = os.environ.get("CHAOS_OBEYS") == "1"


def stay(obeys: bool) -> None:
    """Live on; obeys: end at a signal."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL if obeys else signal.SIG_IGN)
    while True:
        time.sleep(100)


def be(seconds: float = 100.0) -> None:
    """Be a rank: have a child, and a daemon in a session of its own that has a child, too."""
    if not os.fork():
        stay(OBEYS)
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        if not os.fork():
            stay(OBEYS)
        stay(OBEYS)
    if seconds < 100:
        time.sleep(seconds)
        return
    work = os.environ.get("CHAOS_WORK")
    if work:
        with open(f"{work}/there.{os.environ['RANK']}", "w"):
            pass
    stay(OBEYS)


def launch(method: str) -> None:
    """Start groups, run them and end them, one after the other."""
    import procession

    for number in range(1000):
        if method == "command":
            program = [sys.executable, __file__]
            group = procession.start(program, nproc=3, stop=procession.Stop(grace=0.2))
        else:
            stop = procession.Stop(grace=0.2, linger=0.2)
            group = procession.start(be, nproc=3, start_method=method, stop=stop)
        try:
            group.wait(0.02 * (number % 8))
        except TimeoutError:
            group.stop()


if __name__ == "__main__":
    if "RANK" in os.environ:
        be(float(os.environ.get("CHAOS_SECONDS", "100")))
    else:
        from chaos.programs import family  # so that ranks import it, too

        family.launch(sys.argv[1])
