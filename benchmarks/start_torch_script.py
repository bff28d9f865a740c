"""16 ranks of a script that imports torch and prints its rank, from the command line."""

from figures import Figure, Goal
from script import Plan
from starting import start


def measure(plan: Plan) -> list[Figure]:
    # torchrun's ranks may share a line
    samples = start(plan, 16, "torch_rank", lambda text: text.count("has torch"), "torch")
    return [
        Figure(
            "16 ranks, to the end",
            "s",
            "torchrun",
            samples,
            (Goal(1 / 15, "peer"), Goal(1.3, "limit")),
        )
    ]
