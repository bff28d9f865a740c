"""Ranks with daemons that fork without end; as a script a launcher: forking.py CONTAIN DIRECTORY.

A module that ranks import.
"""

from __future__ import annotations

import os
import signal
import sys
import time

SECONDS = 60.0  # for the case that nobody ends them
NPROC = 2


def daemon() -> None:
    """Fork on, and hear no signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if not os.fork():
            time.sleep(0.3)
            os._exit(0)
        time.sleep(0.02)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    os._exit(0)


def rank(place: str) -> None:
    """Have two daemons in sessions of their own."""
    for _ in range(2):
        if not os.fork():
            os.setsid()
            if not os.fork():
                daemon()
            os._exit(0)
        os.wait()
    with open(f"{place}/there.{os.environ['RANK']}", "w"):
        pass
    time.sleep(SECONDS)


if __name__ == "__main__":
    import procession
    from chaos.programs import forking  # so that ranks import it, too

    contain, place = sys.argv[1:]
    procession.run(
        forking.rank,
        args=(place,),
        nproc=NPROC,
        contain=contain,
        logs=procession.Logs(f"{place}/logs"),
        stop=procession.Stop(grace=0.2),
    )
