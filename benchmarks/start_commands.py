"""256 × /bin/true from a Python program, started and reaped."""

from figures import Figure, Goal
from measure import alternate, ask, limit, program
from script import Plan, main

RANKS = 256


def measure(plan: Plan) -> list[Figure]:
    def launch(way: str) -> list[float]:
        return ask(program("launch_commands"), way, str(RANKS))

    def by_hand() -> list[float]:
        seconds = ask(limit("spawn_wait"), str(RANKS), "/bin/true")
        return [seconds, seconds]

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
            f"{name} launch",
            "ms",
            "elastic",
            {side: [1e3 * pair[k] for pair in pairs] for side, pairs in samples.items()},
            (Goal(most, "limit"), Goal(1, "peer")),
        )
        for k, (name, most) in enumerate((("first", 1.5), ("second", 1.2)))
    ]


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=300)
