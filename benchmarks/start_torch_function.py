"""`run(f, nproc=16)` from a process that has imported torch; f needs torch, too."""

from figures import Figure, Goal, nth
from measure import alternate, ask, program
from script import Plan

RANKS = 16


def measure(plan: Plan) -> list[Figure]:
    def launch(way: str) -> list[float]:
        return ask(program("launch_function"), way, str(RANKS))

    ways = {"ours": "procession", "peer": "spawn", "limit": "limit"}
    samples = alternate({side: lambda w=way: launch(w) for side, way in ways.items()}, plan.repeat)
    return [
        Figure("first launch", "s", "mp.spawn", nth(samples, 0), (Goal(1 / 12, "peer"),)),
        Figure("second launch", "s", "mp.spawn", nth(samples, 1), (Goal(1.4, "limit"),)),
    ]
