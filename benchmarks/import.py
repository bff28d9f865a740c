"""`import procession`, and the command around the smallest program there is."""

from figures import Figure, Goal
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, ask, limit, run
from script import Plan

ROUNDS = 3  # samples for each one asked for: these are short
TIMED = "import time; b = time.perf_counter(); {}; print(time.perf_counter() - b)"


def measure(plan: Plan) -> list[Figure]:
    def timed(statement: str) -> float:
        return 1e3 * ask("-c", TIMED.format(statement))

    def command(words: list[str]) -> float:
        return run([*words, "true"])[0] * 1e3

    imports = alternate(
        {
            "ours": lambda: timed("import procession; procession.run"),
            "peer": lambda: timed("import torch.distributed.run"),
        },
        plan.repeat * ROUNDS,
    )
    commands = alternate(
        {
            "ours": lambda: command(PROCESSION),
            "peer": lambda: command([*TORCHRUN, "--no-python"]),
            "limit": lambda: command([PYTHON, limit("spawn_wait"), "1", ""]),
        },
        plan.repeat * ROUNDS,
    )
    return [
        Figure("import, with `run`", "ms", "torch.distributed.run", imports, (Goal(60),)),
        Figure("`procession run true`", "ms", "torchrun", commands, (Goal(2, "limit"),)),
    ]
