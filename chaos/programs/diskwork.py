"""Ranks that write lines until a file tells them to end; a module that ranks import."""

from __future__ import annotations

import os
import time


def write(work: str, fails: bool) -> int:
    """Write lines of 1 kB; then end, or fail if `fails` and the rank is 1."""
    rank = int(os.environ["RANK"])
    with open(f"{work}/there.{rank}", "w"):
        pass
    end = time.monotonic() + 30  # for the case that nobody tells
    line = (b"%d" % rank) * 1000 + b"\n"
    lost = 0
    while not os.path.exists(f"{work}/end") and time.monotonic() < end:
        try:
            os.write(1, line)
        except OSError:
            lost += 1
        time.sleep(0.001)
    if fails and rank == 1:
        raise ArithmeticError("on purpose")
    return lost
