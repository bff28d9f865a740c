"""A launcher that works for long: soaking.py KIND COUNT PLACE, and looks at itself on the way.

KIND: "groups" (COUNT of them, one after the other), "restarts" (of one group, with tee), "logs"
(COUNT millions of bytes that two ranks write, on its console). A module that ranks import.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
import time
from pathlib import Path

import procession

LOOKS = 25


def quick(place: str) -> int:
    """Be a rank of a short life."""
    return int(os.environ["RANK"])


def fail(place: str) -> None:
    """Fail until that has happened often enough."""
    rank, attempt = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    print(f"rank {rank} in attempt {attempt}", flush=True)
    if attempt < int(Path(place, "count").read_text()) and rank == "1":
        sys.exit(3)


def write(place: str) -> None:
    """Write lines of 100 bytes, many at once."""
    block = (b"x" * 99 + b"\n") * 10_000
    for _ in range(int(Path(place, "count").read_text()) // 2):
        os.write(1, block)


def look(done: int, total: int, report: int) -> None:
    """Tell what this process has."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status", encoding="ascii") as f:
        memory = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))
    told = {
        "done": done / total,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "memory": memory,
    }
    os.write(report, json.dumps(told).encode() + b"\n")


def main() -> None:
    """Work, and look at LOOKS moments."""
    from chaos.programs import soaking

    kind, count, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    Path(place, "count").write_text(str(count))
    report = os.open(Path(place, "looks"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    quiet = procession.Logs(ranks=[])
    if kind == "groups":
        for number in range(count):
            values = procession.run(soaking.quick, args=(place,), nproc=2, logs=quiet, learn=False)
            assert values == [0, 1]
            if number % max(1, count // LOOKS) == 0:
                look(number, count, report)
        return
    tee = procession.Logs(Path(place, "logs"), tee=procession.Std.ALL)
    group = procession.start(
        soaking.fail if kind == "restarts" else soaking.write,
        args=(place,),
        nproc=2,
        logs=tee if kind == "restarts" else procession.Logs(),
        restart=procession.Restart(max=count if kind == "restarts" else 0),
        learn=False,
    )
    attempts = 0
    began = time.monotonic()
    if kind == "restarts":
        for event in group:
            if event.kind == "starting":
                attempts += 1
                if attempts % max(1, count // LOOKS) == 0:
                    look(attempts, count, report)
    else:
        while group.state is procession.Phase.RUNNING:
            look(0, 1, report)
            time.sleep(max(0.02, (time.monotonic() - began) / LOOKS))
    group.wait()
    look(1, 1, report)
    if kind == "restarts":
        assert attempts == count + 1, attempts


if __name__ == "__main__":
    main()
