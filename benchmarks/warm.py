"""After an edit of one line of the script, warm: 16 ranks of torch at their first own line; DDP."""

import re
import time
from collections.abc import Callable
from itertools import count

from figures import Figure, Goal
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, program, run
from script import Plan
from start_ddp import RANKS as DDP_RANKS
from start_ddp import SCRIPT as DDP
from start_ddp import trained

RANKS = 16
SCRIPT = """
import torch
import os, time
os.write(1, b"at %f edit {edit}\\n" % time.monotonic())  # torchrun's ranks tear what is printed
"""


def measure(plan: Plan) -> list[Figure]:
    script = plan.directory() / "edited.py"
    env = {
        "XDG_CACHE_HOME": str(plan.directory()),
        "XDG_RUNTIME_DIR": str(plan.directory()),  # templates of its own
    }
    edits = count(1)

    def first_line(command: list[str]) -> float:
        """Edit the script, and launch it; gives the seconds until the last rank is in it."""
        edit = next(edits)
        script.write_text(SCRIPT.format(edit=edit))
        begin = time.monotonic()
        _, text = run([*command, str(script)], env)
        at = [float(found) for found in re.findall(rf"at (\S+) edit {edit}\b", text)]
        if len(at) != RANKS:
            raise RuntimeError(f"{len(at)} of {RANKS} ranks spoke:\n{text}")
        return max(at) - begin

    def train(command: list[str]) -> float:
        seconds, text = run([*command, program(DDP)], env)
        if trained(text) != DDP_RANKS:
            raise RuntimeError(f"not {DDP_RANKS} ranks with one result:\n{text}")
        return seconds

    def both(launch: Callable[[list[str]], float], ranks: int) -> dict[str, list[float]]:
        warm = [*PROCESSION, "--warm", "-n", str(ranks)]
        peer = [*TORCHRUN, "--nproc-per-node", str(ranks)]
        launch(warm)  # cold; it leaves what the others take
        return alternate({"ours": lambda: launch(warm), "peer": lambda: launch(peer)}, plan.repeat)

    try:
        edited, taught = both(first_line, RANKS), both(train, DDP_RANKS)
    finally:
        run([PYTHON, "-m", "procession", "warm", "stop"], env)
    goals = (Goal(0.25), Goal(1 / 60, "peer"))
    return [
        Figure("an edit, until 16 ranks are in the script", "s", "torchrun", edited, goals),
        Figure("DDP, 8 ranks, to the end", "s", "torchrun", taught, (Goal(1 / 6, "peer"),)),
    ]
