"""A rank under any launcher, as a script or a function (`be`).

`plan.json` in CHAOS_WORK says what it does. Whatever becomes of its launcher, it ends by itself
after `LIFE` seconds, and so does its child.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

LIFE = 60
WAYS = ("raise", "exit", "_exit", "SIGKILL", "SIGSEGV")


def be(rank: int) -> None:
    """Be this rank."""
    place = os.environ["CHAOS_WORK"]
    with open(f"{place}/plan.json", encoding="utf-8") as f:
        plan: dict[str, Any] = json.load(f)
    if rank in plan.get("ignores", ()):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if plan.get("children") and not os.fork():
        os.execvp("sleep", ["sleep", str(LIFE)])
    _note(f"{place}/there.{rank}", str(os.getpid()))
    until = time.monotonic() + LIFE
    while not os.path.exists(f"{place}/go"):
        time.sleep(0.002)
        if time.monotonic() > until:
            return
    for loser, way, after in plan.get("losers", ()):
        if loser == rank:
            with open(f"{place}/go", encoding="ascii") as f:
                _fail(place, rank, way, float(f.read()) + after)
    time.sleep(LIFE)


def _note(path: str, text: str) -> None:
    with open(f"{path}.new", "w", encoding="ascii") as f:
        f.write(text)
    os.rename(f"{path}.new", path)


def _fail(place: str, rank: int, way: str, at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic() - 0.002))
    while time.monotonic() < at:
        pass
    _note(f"{place}/struck.{rank}", str(time.monotonic()))
    if way == "raise":
        raise ValueError(f"rank {rank} has failed on purpose")
    if way == "exit":
        sys.exit(3)
    if way == "_exit":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, way))


if __name__ == "__main__":
    be(int(os.environ["RANK"]))
