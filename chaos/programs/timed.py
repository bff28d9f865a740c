"""Ranks that beat and write, and a launcher that watches them: timed.py WORK SECONDS LIMIT END.

END is what the group comes to: "well", "restart" (a rank fails once), or "stopped" (by the
launcher, when the file WORK/stop is there; ranks ignore it). A module that ranks import.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

GRACE = 1.5


def work(place: str, seconds: float, end: str) -> int:
    """Beat and write for so long, by the clock that nobody sets."""
    import procession

    rank = int(os.environ["RANK"])
    if end == "stopped":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(place, f"there.{rank}").touch()
    until = time.monotonic() + seconds
    step = 0
    while time.monotonic() < until:
        procession.beat(step := step + 1)
        print("line", step, flush=True)
        time.sleep(0.02)
    once = Path(place, "failed")
    if end == "restart" and rank == 1 and not once.exists():
        once.touch()
        raise ArithmeticError("once")
    return rank


def launch(place: str, seconds: float, limit: float, end: str) -> int:
    """Run the group, say how it ended, and how long that took."""
    import procession
    from chaos.programs import timed

    stop = procession.Stop(grace=GRACE, linger=GRACE)
    group = procession.start(
        timed.work,
        args=(place, seconds, end),
        nproc=3,
        hang=procession.Hang(timeout=limit, silence=limit, start=60),
        restart=procession.Restart(max=1, backoff=0.3) if end == "restart" else None,
        logs=procession.Logs(Path(place, "logs"), redirect=procession.Std.ALL),
        stop=stop,
        learn=False,
    )
    if end == "stopped":
        while not Path(place, "stop").exists():
            time.sleep(0.005)
        began = time.monotonic()
        group.stop()
        print(f"stopped after {time.monotonic() - began:.3f} s", flush=True)
        return 0
    try:
        print("values", group.wait().values, flush=True)
    except procession.GroupFailed as e:
        print(e, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
