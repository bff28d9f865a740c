"""16 ranks, tee on, silent for 10 s: what the launching side costs (launcher and agent)."""

import time

from figures import Figure, Goal, nth
from measure import (
    PROCESSION,
    PYTHON,
    TORCHRUN,
    alternate,
    apart_from,
    cpu_seconds,
    launched,
    limit,
    program,
    rss,
    tasks,
    wakeups,
)
from script import Plan

RANKS = 16
SILENCE, QUICK_SILENCE, SETTLING = 10.0, 2.0, 1.0  # seconds
SCRIPT = program("silent")


def idle(plan: Plan, command: list[str]) -> list[float]:
    """Give wake-ups and CPU ms a second, threads, and resident MB."""
    at = plan.directory()
    silence = QUICK_SILENCE if plan.quick else SILENCE
    logs = str(plan.directory())
    with launched([w.format(at=at, logs=logs) for w in command], RANKS, at) as (pid, ranks):
        time.sleep(SETTLING)
        side = apart_from(pid, ranks)
        woken, cpu = sum(map(wakeups, side)), sum(map(cpu_seconds, side))
        time.sleep(silence)
        return [
            (sum(map(wakeups, side)) - woken) / silence,
            (sum(map(cpu_seconds, side)) - cpu) / silence * 1e3,
            sum(len(tasks(p)) for p in side),
            sum(map(rss, side)) / 1e6,
        ]


def measure(plan: Plan) -> list[Figure]:
    logged = ["-t", "3", "--log-dir", "{logs}", SCRIPT, "{at}"]
    samples = alternate(
        {
            "ours": lambda: idle(plan, [*PROCESSION, "-n", str(RANKS), *logged]),
            "peer": lambda: idle(plan, [*TORCHRUN, "--nproc-per-node", str(RANKS), *logged]),
            "limit": lambda: idle(
                plan, [PYTHON, limit("fork_ranks"), str(RANKS), "", SCRIPT, "{at}"]
            ),
        },
        plan.repeat,
    )
    rows = (
        ("wake-ups", "/s", (Goal(2),)),
        ("CPU time", "ms/s", ()),
        ("threads", "", (Goal(3),)),
        ("resident memory", "MB", (Goal(45),)),
    )
    return [
        Figure(name, unit, "torchrun", nth(samples, k), goals)
        for k, (name, unit, goals) in enumerate(rows)
    ]
