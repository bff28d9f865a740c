"""A rank that saves its work when it is told to end: saving.py SECONDS. Files let it fail."""

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
    (place / f"pid.{rank}").write_text(str(os.getpid()))
    (place / f"pid.{rank}").rename(place / f"there.{rank}")
    fail = place / f"fail.{rank}"
    while not (fail.exists() or (place / "end").exists()):
        time.sleep(0.01)
    if fail.exists():  # at that time
        time.sleep(max(0.0, float(fail.read_text()) - time.monotonic()))
        raise ArithmeticError(time.monotonic_ns())
