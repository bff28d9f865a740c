"""Ranks that use a little of everything, and a launcher of them; a module that ranks import.

As a script: scarce.py METHOD LIMIT VALUE. It lowers a limit of its own to VALUE (-1: it does not),
runs a group, prints what became of it, waits for the file `lifted`, and runs another group.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
import time
from typing import Any

SECONDS = 0.4  # that ranks work
GRACE = 0.2


def be() -> None:
    """Open files, fork and use memory for a while."""
    work = os.environ["CHAOS_WORK"]
    with open(f"{work}/there.{os.environ['RANK']}", "w"):
        pass
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.ExitStack() as opened:
            for _ in range(8):
                opened.enter_context(open(os.devnull, "rb"))
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            bytearray(8 << 20)
        time.sleep(0.01)


def launch(method: str, limit: int, value: int) -> None:
    """Run a group with a limit, and another one without."""
    import procession
    import procession.forkserver
    from chaos.programs import scarce  # so that ranks import it, too

    def tell(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    program: Any = [sys.executable, __file__] if method == "command" else scarce.be
    usual = resource.getrlimit(limit)
    tell(going=True)
    if value >= 0:
        resource.setrlimit(limit, (value, usual[1]))
    began, kind, said = time.monotonic(), "", ""
    before = _descriptors()
    try:
        procession.run(
            program,
            nproc=3,
            start_method="forkserver" if method == "command" else method,
            stop=procession.Stop(grace=GRACE, linger=GRACE),
            learn=False,
            timeout=20,
        )
    except Exception as e:
        kind, said = type(e).__name__, str(e)
    took = time.monotonic() - began
    resource.setrlimit(limit, usual)
    tell(kind=kind, said=said, seconds=took)
    while not os.path.exists(f"{os.environ['CHAOS_WORK']}/lifted"):
        time.sleep(0.005)
    again = procession.run(int, nproc=2, logs=procession.Logs(ranks=[]), timeout=20)
    procession.forkserver.close()
    deadline = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    threads = [t.name for t in threading.enumerate()]
    tell(again=again, threads=threads, more=_descriptors() - before)


def _descriptors() -> int:
    """Count what is open, which needs a descriptor itself."""
    found = 0
    for number in range(1024):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found += 1
    return found


if __name__ == "__main__":
    if "RANK" in os.environ:
        be()
    else:
        launch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
