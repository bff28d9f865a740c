"""8 ranks, 20 steps of DDP under gloo, in a first run of the script."""

import re

from figures import Figure, Goal
from script import Plan
from starting import start

RANKS, SCRIPT = 8, "ddp_rank"
# What the script imports, and what torch imports when DDP and the optimizer are first used.
MODULES = "torch,torch.distributed.nn,torch.nn.parallel,torch._dynamo"


def trained(text: str) -> int:
    """Count the ranks, 0 if they do not have one result."""
    sums = re.findall(r"trained to (\S+);", text)
    return len(sums) if len(set(sums)) == 1 else 0


def measure(plan: Plan) -> list[Figure]:
    samples = start(plan, RANKS, SCRIPT, trained, MODULES)
    return [Figure("first run", "s", "torchrun", samples, (Goal(1 / 4, "peer"),))]
