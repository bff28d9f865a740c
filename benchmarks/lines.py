"""From a rank's `write` of one line to the console: 4 ranks, a line every 50 ms each."""

import os
import statistics
import subprocess
import time

from figures import Figure, Goal
from measure import PATIENCE, PYTHON, alternate, limit, program
from script import Plan

RANKS = 4
LINES, QUICK_LINES = 60, 20
MARK = b"at "


def delays(command: list[str], lines: int) -> list[float]:
    """Run a launcher whose ranks write when they write; gives the delay of each line in ms."""
    found: list[float] = []
    rest = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as launcher:
        assert launcher.stdout is not None
        while block := os.read(launcher.stdout.fileno(), 65536):
            now = time.monotonic_ns()
            *whole, rest = (rest + block).split(b"\n")
            found += [(now - int(w.partition(MARK)[2])) / 1e6 for w in whole if MARK in w]
        launcher.wait(PATIENCE)
    if launcher.returncode or len(found) != RANKS * lines:
        raise RuntimeError(f"{len(found)} of {RANKS * lines} lines came: {' '.join(command)}")
    return found


def measure(plan: Plan) -> list[Figure]:
    lines = QUICK_LINES if plan.quick else LINES
    rank = [program("stamp_lines"), str(lines)]

    def by(way: str) -> list[float]:
        at = str(plan.directory())
        return delays([PYTHON, program("launch_logged"), way, str(RANKS), at, *rank], lines)

    taken = alternate(
        {
            "tee": lambda: by("tee"),
            "prefix": lambda: by("prefix"),
            "peer": lambda: by("elastic"),
            "limit": lambda: delays(
                [PYTHON, limit("spawn_wait"), str(RANKS), PYTHON, *rank], lines
            ),
        },
        plan.repeat,
    )
    medians = {way: [statistics.median(run) for run in runs] for way, runs in taken.items()}
    worst = {way: [max(run) for run in runs] for way, runs in taken.items()}
    found: list[Figure] = []
    for name, values, goals in (("median", medians, (Goal(2),)), ("worst", worst, ())):
        common = {"peer": values["peer"], "limit": values["limit"]}
        found.append(
            Figure(f"{name}, by files", "ms", "elastic", {"ours": values["tee"], **common}, goals)
        )
        piped = {"ours": values["prefix"], "limit": values["limit"]}
        found.append(Figure(f"{name}, by pipes", "ms", "elastic", piped, goals))
    return found
