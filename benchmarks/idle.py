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
    with launched([w.format(at=at) for w in command], RANKS, at) as (pid, ranks):
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
    logged = ["-t", "3", "--log-dir", "{at}_logs", SCRIPT, "{at}"]
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
    return [
        Figure("wake-ups", "/s", "torchrun", nth(samples, 0), (Goal(2),)),
        Figure("CPU time", "ms/s", "torchrun", nth(samples, 1)),
        Figure("threads", "", "torchrun", nth(samples, 2), (Goal(3),)),
        Figure("resident memory", "MB", "torchrun", nth(samples, 3), (Goal(45),)),
    ]
