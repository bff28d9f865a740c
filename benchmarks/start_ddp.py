"""8 ranks, 20 steps of DDP under gloo: a first run, and a second one of the same script."""

import re

from figures import Figure, Goal
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, limit, program, run
from script import Plan, main

RANKS = 8
SCRIPT = program("ddp_rank")
# What the script imports, and what torch imports when DDP and the optimizer are first used.
MODULES = "torch,torch.distributed.nn,torch.nn.parallel,torch._dynamo"


def train(command: list[str], cache: str) -> float:
    ran = run(command, {"XDG_CACHE_HOME": cache})
    sums = re.findall(r"trained to (\S+);", ran.stdout)
    if len(sums) != RANKS or len(set(sums)) != 1:
        raise RuntimeError(f"not {RANKS} ranks with one result:\n{ran.stdout}")
    return ran.seconds


def measure(plan: Plan) -> list[Figure]:
    ours = [*PROCESSION, "-n", str(RANKS), SCRIPT]

    def twice() -> tuple[float, float]:
        cache = str(plan.directory())
        return train(ours, cache), train(ours, cache)

    def once(command: list[str]) -> tuple[float, float]:
        seconds = train(command, str(plan.directory()))
        return seconds, seconds

    samples = alternate(
        {
            "ours": twice,
            "peer": lambda: once([*TORCHRUN, "--nproc-per-node", str(RANKS), SCRIPT]),
            "limit": lambda: once([PYTHON, limit("fork_ranks"), str(RANKS), MODULES, SCRIPT]),
        },
        plan.repeat,
    )
    return [
        Figure(
            f"{name} run",
            "s",
            "torchrun",
            {side: [pair[k] for pair in pairs] for side, pairs in samples.items()},
            (Goal(share, "peer"),),
        )
        for k, (name, share) in enumerate((("first", 1 / 3.5), ("second", 1 / 4)))
    ]


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=900)
