"""Files in which ranks note when something was, in ns of the monotonic clock."""

import os
import signal
import sys
import time
from pathlib import Path


def note(directory, name):
    """Note that it is now."""
    part = Path(f"{directory}.{name}")
    part.write_text(str(time.monotonic_ns()))
    part.rename(Path(directory, name))


def fail_once(directory):
    """In the first attempt, wait until all ranks are there, and rank 0 fails; else return."""
    rank, n = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    note(directory, f"began_{attempt}_{rank}")
    if attempt == "0":
        if rank != "0":
            signal.pause()
        while len(list(Path(directory).glob("began_0_*"))) < n:
            time.sleep(0.005)
        note(directory, "failed")
        sys.exit(1)
