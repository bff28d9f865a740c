"""Ranks of which two fail at known times; a module that ranks import."""

from __future__ import annotations

import contextlib
import os
import socket
import time

from chaos.programs.ways import WAYS

KINDS = ("ValueError", "exit 3", "_exit 3", "SIGKILL", "a real SIGSEGV")  # of ways
LEAD = 0.1  # seconds until the first failure, in which both ranks get there
SPIN, LONG_SPIN = 0.001, 0.003  # seconds before its moment in which a rank keeps its core


def apart(
    place: str, losers: tuple[int, int], kinds: tuple[str, str], gap: float, starved: bool = False
) -> None:
    """Fail when it is time, having written down when that was.

    starved: keep the cores from the launcher longer, and with real-time priority to the end.
    """
    rank = int(os.environ["RANK"])
    if rank not in losers:
        time.sleep(100)
    first = rank == losers[0]
    with open(f"{place}/ready.{rank}", "w"):
        pass
    if first:
        while not os.path.exists(f"{place}/ready.{losers[1]}"):
            time.sleep(0.001)
        with open(f"{place}/new", "w", encoding="ascii") as f:
            f.write(str(time.monotonic_ns() + int(LEAD * 1e9)))
        os.rename(f"{place}/new", f"{place}/at")
    while not os.path.exists(f"{place}/at"):
        time.sleep(0.001)
    with open(f"{place}/at", encoding="ascii") as f:
        at = int(f.read()) + (0 if first else int(gap * 1e9))
    stamp = os.open(f"{place}/stamp.{rank}", os.O_CREAT | os.O_WRONLY)
    _undisturbed(losers.index(rank))
    time.sleep(max(0.0, (at - time.monotonic_ns()) / 1e9 - (LONG_SPIN if starved else SPIN)))
    while time.monotonic_ns() < at:
        pass
    os.write(stamp, str(time.monotonic_ns()).encode())
    if not starved:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # it ends as others do
    WAYS[kinds[0 if first else 1]]()


def _undisturbed(which: int) -> None:
    """Where that is allowed, let nothing come between the stamp and the failure."""
    with contextlib.suppress(OSError):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[which % len(cpus)]})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def because(place: str, loser: int, kind: str) -> None:
    """Fail because a peer did: all others read from it, as in a collective operation."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    path = f"{place}/socket"
    if rank == loser:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{path}.new")
            server.listen(world)
            os.rename(f"{path}.new", path)
            held = [server.accept()[0] for _ in range(world - 1)]
            time.sleep(0.02)
            WAYS[kind]()
            del held
    while not os.path.exists(path):
        time.sleep(0.001)
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        if not link.recv(1):
            raise ConnectionError("the peer is gone")
