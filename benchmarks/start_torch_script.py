"""16 ranks of a script that imports torch and prints its rank, from the command line."""

from figures import Figure, Goal
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, limit, program, run
from script import Plan, main

RANKS = 16
SCRIPT = program("torch_rank")


def start(command: list[str]) -> float:
    ran = run(command)
    said = ran.stdout.count("has torch")  # torchrun's ranks may share a line
    if said != RANKS:
        raise RuntimeError(f"{said} of {RANKS} ranks spoke:\n{ran.stdout}")
    return ran.seconds


def measure(plan: Plan) -> list[Figure]:
    samples = alternate(
        {
            "ours": lambda: start([*PROCESSION, "-n", str(RANKS), SCRIPT]),
            "peer": lambda: start([*TORCHRUN, "--nproc-per-node", str(RANKS), SCRIPT]),
            "limit": lambda: start([PYTHON, limit("fork_ranks"), str(RANKS), "torch", SCRIPT]),
        },
        plan.repeat,
    )
    goals = (Goal(1 / 15, "peer"), Goal(1.3, "limit"))
    return [Figure("16 ranks, to the end", "s", "torchrun", samples, goals)]


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=900)
