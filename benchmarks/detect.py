"""One of 4 ranks dies: until the others have the stop signal, until `wait` has returned."""

from pathlib import Path

from figures import Figure, Goal, nth
from measure import PYTHON, TORCHRUN, alternate, ask, limit, program, run
from script import Plan

RANKS = 4
RANK = program("detect_rank")
DEATHS = 3  # in a round, for each sample of torchrun: when a look comes is a matter of luck


def told(directory: Path, died: int) -> float:
    times = [int(p.read_text()) for p in directory.glob("told_*")]
    if len(times) != RANKS - 1:
        raise RuntimeError(f"{len(times)} of {RANKS - 1} ranks got the signal")
    return (max(times) - died) / 1e6


def measure(plan: Plan) -> list[Figure]:
    def death(*launcher: str) -> tuple[float, float]:
        at = plan.directory()
        returned = ask(*(word.format(at=at) for word in launcher))
        died = int((at / "died").read_text())
        return told(at, died), (returned - died) / 1e6

    def under_torchrun() -> float:
        at = plan.directory()
        try:
            run([*TORCHRUN, "--nproc-per-node", str(RANKS), RANK, str(at)])
        except RuntimeError:
            return told(at, int((at / "died").read_text()))  # it was to fail
        raise RuntimeError("torchrun did not fail")

    samples = alternate(
        {
            "ours": lambda: death(program("launch"), "detect", "procession", str(RANKS), "{at}"),
            "peer": lambda: death(program("launch"), "detect", "elastic", str(RANKS), "{at}"),
            "limit": lambda: death(limit("watch"), str(RANKS), PYTHON, RANK, "{at}"),
        },
        plan.repeat * DEATHS,
    )
    signals, returns = nth(samples, 0), nth(samples, 1)
    torchrun = [under_torchrun() for _ in range(plan.repeat)]
    return [
        Figure("death to stop signal", "ms", "elastic", signals, (Goal(1.15, "limit"),)),
        Figure("death to stop signal", "ms", "torchrun", {**signals, "peer": torchrun}, ()),
        Figure("death to `wait` returned", "ms", "elastic", returns, (Goal(1.3, "limit"),)),
    ]
