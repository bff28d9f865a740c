"""100, 300 and 1,000 × /bin/sleep: all started, one killed, all ended."""

from collections.abc import Callable

from figures import Figure, Goal
from measure import alternate, ask, limit, program
from script import Plan

COUNTS, QUICK_COUNTS = (100, 300, 1000), (20, 100)
Times = dict[int, list[float]]  # seconds of start and of end, by ranks


def measure(plan: Plan) -> list[Figure]:
    counts = QUICK_COUNTS if plan.quick else COUNTS

    def grow(*launcher: str) -> Times:
        return {n: ask(*launcher, str(n)) for n in counts}

    samples = alternate(
        {
            "ours": lambda: grow(program("launch"), "many", "procession"),
            "peer": lambda: grow(program("launch"), "many", "elastic"),
            "limit": lambda: grow(limit("many")),
        },
        plan.repeat,
    )

    def each(value: Callable[[Times], float]) -> dict[str, list[float]]:
        return {side: [value(times) for times in taken] for side, taken in samples.items()}

    few, many = counts[0], counts[-1]
    growth = each(lambda times: (times[many][0] / many) / (times[few][0] / few))
    found = [Figure(f"start per rank, {many:,} to {few}", "×", "elastic", growth, (Goal(1.3),))]
    for k, n in enumerate(counts):
        start, end = each(lambda t, n=n: t[n][0] / n * 1e3), each(lambda t, n=n: t[n][1])
        found.insert(
            k, Figure(f"start per rank, {n:,} ranks", "ms", "elastic", start, (Goal(1, "peer"),))
        )
        found.append(
            Figure(f"failure to end, {n:,} ranks", "s", "elastic", end, (Goal(1.5, "limit"),))
        )
    return found
