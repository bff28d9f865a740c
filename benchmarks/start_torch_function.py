"""`run(f, nproc=16)` from a process that has imported torch; f needs torch, too."""

from figures import Figure, Goal
from measure import alternate, ask, program
from script import Plan, main

RANKS = 16


def measure(plan: Plan) -> list[Figure]:
    def launch(way: str) -> list[float]:
        return ask(program("launch_function"), way, str(RANKS))

    samples = alternate(
        {
            "ours": lambda: launch("procession"),
            "peer": lambda: launch("spawn"),
            "limit": lambda: launch("limit"),
        },
        plan.repeat,
    )
    return [
        Figure(
            f"{name} launch",
            "s",
            "mp.spawn",
            {side: [pair[k] for pair in pairs] for side, pairs in samples.items()},
            (goal,),
        )
        for k, (name, goal) in enumerate(
            (("first", Goal(1 / 12, "peer")), ("second", Goal(1.4, "limit")))
        )
    ]


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=900)
