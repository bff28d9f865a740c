"""Ends in the way that its argument names, while the other ranks wait."""

import os
import signal
import sys
import time

rank, way = int(os.environ["RANK"]), sys.argv[1]


def load_batch() -> None:
    """What only one rank does."""
    time.sleep(600)


def all_reduce() -> None:
    """What the others do."""
    time.sleep(600)


print("waiting", flush=True)
if way == "stays":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(0.5)
if way == "two" and rank < 2:
    time.sleep(1 - time.time() % 1)  # both at the same time
    raise ConnectionError(f"no answer from rank {1 - rank}")
if rank != 1 and way != "debug":
    all_reduce()
if way == "raise":
    raise ValueError("corrupt batch: NaN in image 1287")
if way == "sigkill":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "sigsegv":
    signal.raise_signal(signal.SIGSEGV)
if way == "memory":
    blocks = [bytearray(10_000_000) for _ in range(1000)]
if way == "debug":
    shape = (4, 7 if rank == 3 else 8)
    breakpoint()
    sys.exit()
load_batch()
