"""After an edit of one line of the script, warm: 16 ranks of torch at their first own line; DDP."""

import re
import time

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
    edits = 0

    def first_line(command: list[str]) -> float:
        """Edit the script, and launch it; gives the seconds until the last rank is in it."""
        nonlocal edits
        edits += 1
        script.write_text(SCRIPT.format(edit=edits))
        begin = time.monotonic()
        ran = run([*command, str(script)], env)
        at = [float(found) for found in re.findall(rf"at (\S+) edit {edits}\b", ran.stdout)]
        if len(at) != RANKS:
            raise RuntimeError(f"{len(at)} of {RANKS} ranks spoke:\n{ran.stdout}")
        return max(at) - begin

    def train(command: list[str]) -> float:
        ran = run([*command, program(DDP)], env)
        if trained(ran.stdout) != DDP_RANKS:
            raise RuntimeError(f"not {DDP_RANKS} ranks with one result:\n{ran.stdout}")
        return ran.seconds

    warm = [*PROCESSION, "--warm", "-n"]
    peer = [*TORCHRUN, "--nproc-per-node"]
    try:
        first_line([*warm, str(RANKS)])  # cold; it leaves what the others take
        edited = alternate(
            {
                "ours": lambda: first_line([*warm, str(RANKS)]),
                "peer": lambda: first_line([*peer, str(RANKS)]),
            },
            plan.repeat,
        )
        train([*warm, str(DDP_RANKS)])
        taught = alternate(
            {
                "ours": lambda: train([*warm, str(DDP_RANKS)]),
                "peer": lambda: train([*peer, str(DDP_RANKS)]),
            },
            plan.repeat,
        )
    finally:
        run([PYTHON, "-m", "procession", "warm", "stop"], env)
    goals = (Goal(0.25), Goal(1 / 60, "peer"))
    return [
        Figure("an edit, until 16 ranks are in the script", "s", "torchrun", edited, goals),
        Figure("DDP, 8 ranks, to the end", "s", "torchrun", taught, (Goal(1 / 6, "peer"),)),
    ]
