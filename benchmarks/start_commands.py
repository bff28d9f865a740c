"""256 × /bin/true from a Python program, started and reaped."""

from figures import Figure, Goal, nth
from measure import alternate, ask, limit, program
from script import Plan

RANKS = 256


def measure(plan: Plan) -> list[Figure]:
    def launch(way: str) -> list[float]:
        return [1e3 * each for each in ask(program("launch"), "commands", way, str(RANKS))]

    def by_hand() -> list[float]:
        return [1e3 * ask(limit("spawn_wait"), str(RANKS), "", "/bin/true")] * 2

    samples = alternate(
        {
            "ours": lambda: launch("procession"),
            "peer": lambda: launch("elastic"),
            "limit": by_hand,
        },
        plan.repeat,
    )
    return [
        Figure(
            "first launch", "ms", "elastic", nth(samples, 0), (Goal(1.5, "limit"), Goal(1, "peer"))
        ),
        Figure(
            "second launch", "ms", "elastic", nth(samples, 1), (Goal(1.2, "limit"), Goal(1, "peer"))
        ),
    ]
