"""1,000 simulated nodes of 8 ranks: a failure, until all others are told; the driver's memory."""

from figures import Figure, Goal, nth
from measure import ask, program
from script import Plan

NODES, QUICK_NODES = 1000, 100


def measure(plan: Plan) -> list[Figure]:
    nodes = QUICK_NODES if plan.quick else NODES
    samples = {"ours": [ask(program("launch_nodes"), str(nodes)) for _ in range(plan.repeat)]}
    return [
        Figure(f"failure to {nodes:,} nodes told", "s", "", nth(samples, 0), (Goal(0.05),)),
        Figure("memory of the driver", "MiB", "", nth(samples, 1), (Goal(60),)),
    ]
