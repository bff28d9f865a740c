"""A rank that has torch and, in its first life, either fails (rank 0) or waits to be ended.

restart_rank.py DIRECTORY: there each leaves when it began, and rank 0 when it failed.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch

torch.ones(1)
directory, rank = Path(sys.argv[1]), os.environ["RANK"]
attempt, n = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["WORLD_SIZE"])


def note(name: str) -> None:
    now = time.monotonic_ns()
    part = directory / f".{name}"
    part.write_text(str(now))
    part.rename(directory / name)


note(f"began_{attempt}_{rank}")
if attempt == "0":
    if rank != "0":
        signal.pause()
    while len(list(directory.glob("began_0_*"))) < n:
        time.sleep(0.005)
    note("failed")
    sys.exit(1)
