"""16 ranks with torch, one fails: until all ranks of the next attempt run their own code."""

from pathlib import Path

from figures import Figure, Goal
from measure import PYTHON, TORCHRUN, alternate, limit, program, run
from script import Plan, main

RANKS = 16
RANK = program("restart_rank")


def restart(command: list[str], directory: Path) -> float:
    run(command)
    began = [int(p.read_text()) for p in directory.glob("began_1_*")]
    if len(began) != RANKS:
        raise RuntimeError(f"{len(began)} of {RANKS} ranks began again")
    return (max(began) - int((directory / "failed").read_text())) / 1e9


def measure(plan: Plan) -> list[Figure]:
    def ours() -> float:
        at = plan.directory()
        return restart([PYTHON, program("launch_restart"), str(RANKS), str(at)], at)

    def peer() -> float:
        at = plan.directory()
        options = ["--nproc-per-node", str(RANKS), "--max-restarts", "1"]
        return restart([*TORCHRUN, *options, RANK, str(at)], at)

    def by_hand() -> float:
        at = plan.directory()
        return restart([PYTHON, limit("restart"), str(RANKS), RANK, str(at)], at)

    samples = alternate({"ours": ours, "peer": peer, "limit": by_hand}, plan.repeat)
    return [
        Figure(
            "failure to all at work",
            "s",
            "torchrun",
            samples,
            (Goal(1.3, "limit"), Goal(1 / 50, "peer")),
        ),
    ]


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=1200)
