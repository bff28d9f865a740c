"""A rank under any launcher, as a script or a function; `peer_rank.py RANKS` launches by mp.spawn.

`plan.json` in CHAOS_WORK says what it does. Whatever becomes of its launcher, it ends by itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from chaos.programs import pairs

LIFE = 60


def be(rank: int) -> None:
    """Be this rank."""
    os.environ["RANK"] = str(rank)  # which mp.spawn does not set
    place = Path(os.environ["CHAOS_WORK"])
    plan = json.loads((place / "plan.json").read_text())
    if rank in plan.get("ignores", ()):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if plan.get("children") and not os.fork():
        os.execvp("sleep", ["sleep", str(LIFE)])
    (place / f"there.{rank}").touch()
    while "losers" in plan and len([*place.glob("there.*")]) < plan["nproc"]:
        time.sleep(0.002)
    if rank in plan.get("losers", ()):
        pairs.apart(str(place), tuple(plan["losers"]), tuple(plan["kinds"]), plan["gap"])
    time.sleep(LIFE)


if __name__ == "__main__":
    if "RANK" in os.environ:
        be(int(os.environ["RANK"]))
    else:  # as the documentation of torch has it
        import_module("torch.multiprocessing").spawn(
            import_module("chaos.programs.peer_rank").be, nprocs=int(sys.argv[1])
        )
