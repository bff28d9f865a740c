"""16 ranks with torch, one fails: until all ranks of the next attempt run their own code."""

from pathlib import Path

from figures import Figure, Goal
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, limit, program, run
from script import Plan

RANKS = 16
RANK = program("restart_rank")


def restarted(command: list[str], directory: Path, ranks: int) -> float:
    """Run ranks of which one fails; gives the seconds until all have begun again."""
    run(command)
    began = [int(p.read_text()) for p in directory.glob("began_1_*")]
    if len(began) != ranks:
        raise RuntimeError(f"{len(began)} of {ranks} ranks began again")
    return (max(began) - int((directory / "failed").read_text())) / 1e9


def measure(plan: Plan) -> list[Figure]:
    def restart(*launcher: str) -> float:
        at = plan.directory()
        return restarted([*launcher, str(at)], at, RANKS)

    words = ["--nproc-per-node", str(RANKS), "--max-restarts", "1", RANK]
    samples = alternate(
        {
            "ours": lambda: restart(*PROCESSION, *words),
            "peer": lambda: restart(*TORCHRUN, *words),
            "limit": lambda: restart(PYTHON, limit("fork_ranks"), str(RANKS), "torch", RANK),
        },
        plan.repeat,
    )
    goals = (Goal(1.3, "limit"), Goal(1 / 50, "peer"))
    return [Figure("failure to all at work", "s", "torchrun", samples, goals)]
