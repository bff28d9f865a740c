"""16 ranks of a script without imports, from the command line."""

from figures import Figure, Goal
from script import Plan
from starting import start


def measure(plan: Plan) -> list[Figure]:
    samples = start(plan, 16, "plain_rank", lambda text: text.count("a rank is here"))
    return [
        Figure(
            "16 ranks, to the end",
            "s",
            "torchrun",
            samples,
            (Goal(1 / 10, "peer"), Goal(1.2, "limit")),
        )
    ]
