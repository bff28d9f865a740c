"""From a rank's `write` of one line to the console: 4 ranks, a line every 50 ms each."""

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
    with subprocess.Popen(command, stdout=subprocess.PIPE) as launcher:
        came = ((time.monotonic_ns(), line) for line in launcher.stdout or ())
        found = [(now - int(line.partition(MARK)[2])) / 1e6 for now, line in came if MARK in line]
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
                [PYTHON, limit("spawn_wait"), str(RANKS), "", PYTHON, *rank], lines
            ),
        },
        plan.repeat,
    )
    measures = (("median", statistics.median, (Goal(2),)), ("worst", max, ()))
    ways = (("files", {"ours": "tee", "peer": "peer"}), ("pipes", {"ours": "prefix"}))
    return [
        Figure(
            f"{name}, by {how}",
            "ms",
            "elastic",
            {s: [of(run) for run in taken[w]] for s, w in {**sides, "limit": "limit"}.items()},
            goals,
        )
        for name, of, goals in measures
        for how, sides in ways
    ]
