"""Ranks of which one hangs; a module that ranks import."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

KINDS = ("a lock", "the GIL, held in C", "SIGSTOP")
PLACES = KINDS[:2]  # those that show by where the rank is, and not by the state of its process
STEPS = 10


def work(place: str, kind: str, loser: int, together: bool) -> None:
    """Beat and write; after some steps one hangs. together: the others wait for it."""
    import procession

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for step in range(10**9):
        procession.beat(step)
        print("step", step, flush=True)
        if rank == loser and step == STEPS:
            Path(place, "struck").write_text(str(time.monotonic()))
            _hang(place, kind)
        if together and step <= STEPS:
            Path(place, f"{step}.{rank}").touch()
            _wait_for_all(place, step, world)
        time.sleep(0.01)


def _wait_for_all(place: str, step: int, world: int) -> None:
    """Stand for a collective operation."""
    while not all(os.path.exists(f"{place}/{step}.{each}") for each in range(world)):
        time.sleep(0.002)


def _hang(place: str, kind: str) -> None:
    if kind == "a lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    elif kind == "SIGSTOP":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    time.sleep(1000)
