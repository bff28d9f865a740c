"""100, 300 and 1,000 × /bin/sleep: all started, one killed, all ended."""

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
    found: list[Figure] = []
    for n in counts:
        each = {s: [t[n][0] / n * 1e3 for t in times] for s, times in samples.items()}
        goals = (Goal(1, "peer"),)
        found.append(Figure(f"start per rank, {n:,} ranks", "ms", "elastic", each, goals))
    few, many = counts[0], counts[-1]
    growth = {
        side: [(t[many][0] / many) / (t[few][0] / few) for t in times]
        for side, times in samples.items()
    }
    name = f"start per rank, {many:,} to {few}"
    found.append(Figure(name, "×", "elastic", growth, (Goal(1.3),)))
    for n in counts:
        each = {s: [t[n][1] for t in times] for s, times in samples.items()}
        found.append(
            Figure(f"failure to end, {n:,} ranks", "s", "elastic", each, (Goal(1.5, "limit"),))
        )
    return found
