"""A rank that saves its work when it is told to end: saving.py SECONDS FAILING."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    place, rank = Path(os.environ["CHAOS_PLACE_OF_JOB"]), os.environ["RANK"]

    def save(*_: object) -> None:  # noqa: D103
        (place / f"begun.{rank}").touch()
        until = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < until:
            time.sleep(0.01)
        (place / f"saved.{rank}").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    (place / f"there.{rank}").touch()
    while not (rank == sys.argv[2] and (place / "fail").exists()):
        time.sleep(0.01)
    raise ArithmeticError("on purpose")
