"""Memory of 8 ranks with torch: the sum of their proportional shares (PSS)."""

from figures import Figure, Goal, nth
from measure import PYTHON, alternate, apart_from, launched, limit, program, pss
from script import Plan

RANKS = 8


def memory(plan: Plan, command: list[str]) -> tuple[float, float]:
    """Give the megabytes of the ranks, and of those with the launching side."""
    at = plan.directory()
    with launched([word.format(at=at) for word in command], RANKS, at) as (pid, ranks):
        own = sum(map(pss, ranks)) / 1e6
        return own, own + sum(map(pss, apart_from(pid, ranks))) / 1e6


def measure(plan: Plan) -> list[Figure]:
    launch = [PYTHON, program("launch_function")]
    samples = alternate(
        {
            "ours": lambda: memory(plan, [*launch, "procession", str(RANKS), "{at}"]),
            "peer": lambda: memory(plan, [*launch, "spawn", str(RANKS), "{at}"]),
            "limit": lambda: memory(
                plan, [PYTHON, limit("fork_ranks"), str(RANKS), "torch", program("stay"), "{at}"]
            ),
        },
        plan.repeat,
    )
    return [
        Figure("PSS of the ranks", "MB", "mp.spawn", nth(samples, 0), (Goal(1 / 6, "peer"),)),
        Figure("with the launching side", "MB", "mp.spawn", nth(samples, 1)),
    ]
