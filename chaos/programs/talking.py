"""A rank that writes numbered lines for some seconds: talking.py SECONDS LOSER."""

from __future__ import annotations

import os
import sys
import time

if __name__ == "__main__":
    rank, until = int(os.environ["RANK"]), time.monotonic() + float(sys.argv[1])
    with open(os.path.join(os.environ["CHAOS_WORK"], f"there.{rank}"), "w"):
        pass
    number = 0
    while time.monotonic() < until:
        print(f"line {number} of rank {rank}", flush=True)
        number += 1
        time.sleep(0.002)
    print(f"the last line of rank {rank} is {number}", flush=True)
    if rank == int(sys.argv[2]):
        sys.exit(7)
