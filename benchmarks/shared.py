"""8 ranks that work with what was loaded once: memory (PSS) of all, and times."""

import time
from pathlib import Path

from figures import Figure, Goal, nth
from measure import PYTHON, alternate, apart_from, launched, program, pss
from restart import restarted
from script import Plan

RANKS = 8
ARRAY, WORDS, DIGITS = 2000, 200, 500  # megabytes
QUICK = 10  # times less


def command(way: str, kind: str, size: int, at: Path) -> list[str]:
    return [PYTHON, program("launch_shared"), way, kind, str(size), str(RANKS), str(at)]


def check_calls(at: Path, wanted: int) -> None:
    calls = len(list(at.with_name(f"{at.name}.calls").iterdir()))
    if calls != wanted:
        raise RuntimeError(f"it was loaded {calls} times, not {wanted}")


def sample(plan: Plan, way: str, kind: str, size: int) -> tuple[float, float]:
    """Give the megabytes of all processes, and the seconds until all ranks had done their work."""
    at = plan.directory()
    began = time.monotonic_ns()
    with launched(command(way, kind, size, at), RANKS, at) as (pid, ranks):
        memory = sum(map(pss, [*ranks, *apart_from(pid, ranks)])) / 1e6
        done = max(int(p.read_text()) for p in at.iterdir())
    check_calls(at, RANKS if way == "spawn" else 1)
    return memory, (done - began) / 1e9


def restart(plan: Plan, size: int) -> float:
    at = plan.directory()
    seconds = restarted(command("restart", "array", size, at), at, RANKS)
    check_calls(at, 1)
    return seconds


def measure(plan: Plan) -> list[Figure]:
    figures: list[Figure] = []
    of = QUICK if plan.quick else 1
    # Each rank of a peer that loads by itself would take 8 times the array.
    for kind, size, sides in (
        ("array", ARRAY // of, ("ours", "limit")),
        ("digits", DIGITS // of, ("ours", "peer", "limit")),
        ("words", WORDS // of, ("ours", "peer", "limit")),
    ):
        ways = {"ours": "procession", "peer": "spawn", "limit": "limit"}
        samples = alternate(
            {side: lambda w=ways[side], k=kind, s=size: sample(plan, w, k, s) for side in sides},
            plan.repeat,
        )
        goals = (Goal(1.1 * size),) if kind == "array" and of == 1 else ()
        figures += [
            Figure(
                f"{kind} of {size} MB: PSS of all", "MB", "multiprocessing", nth(samples, 0), goals
            ),
            Figure(
                f"{kind} of {size} MB: to the end of their work",
                "s",
                "multiprocessing",
                nth(samples, 1),
            ),
        ]
    again = {"ours": [restart(plan, ARRAY // of) for _ in range(plan.repeat)]}
    return [*figures, Figure("array: failure to all at work", "s", "", again)]
