"""8 ranks, 20 steps of DDP under gloo, in a first run of the script."""

import re

from figures import Figure, Goal
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, limit, program, run
from script import Plan, main

RANKS = 8
SCRIPT = program("ddp_rank")
# What the script imports, and what torch imports when DDP and the optimizer are first used.
MODULES = "torch,torch.distributed.nn,torch.nn.parallel,torch._dynamo"


def train(command: list[str]) -> float:
    ran = run(command)
    sums = re.findall(r"trained to (\S+);", ran.stdout)
    if len(sums) != RANKS or len(set(sums)) != 1:
        raise RuntimeError(f"not {RANKS} ranks with one result:\n{ran.stdout}")
    return ran.seconds


def measure(plan: Plan) -> list[Figure]:
    samples = alternate(
        {
            "ours": lambda: train([*PROCESSION, "-n", str(RANKS), SCRIPT]),
            "peer": lambda: train([*TORCHRUN, "--nproc-per-node", str(RANKS), SCRIPT]),
            "limit": lambda: train([PYTHON, limit("fork_ranks"), str(RANKS), MODULES, SCRIPT]),
        },
        plan.repeat,
    )
    return [Figure("first run", "s", "torchrun", samples, (Goal(1 / 4, "peer"),))]


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=900)
