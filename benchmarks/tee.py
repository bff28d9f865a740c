"""4 ranks × 100 MB of lines of 80 bytes, to files and console: what it costs us, and the ranks.

Also one rank with a core to spare: the rank has a CPU for itself, and the launching side and who
reads the console have another one.
"""

import os
import subprocess
from pathlib import Path

from figures import Figure, Goal, nth
from measure import PATIENCE, PYTHON, alternate, limit, program, run
from script import Plan

RANKS = 4
MEGABYTES, QUICK_MEGABYTES = 100, 10
LINE = 80


def slowest(directory: Path, ranks: int) -> float:
    seconds = [float(p.read_text()) for p in directory.glob("rank_*")]
    if len(seconds) != ranks:
        raise RuntimeError(f"{len(seconds)} of {ranks} ranks have written")
    return max(seconds)


def _cpus(ranks: int) -> tuple[list[str], list[str]]:
    """Say where one rank runs, as an argument of its program, and where all others do."""
    if ranks > 1:
        return [], []
    own, other, *_ = sorted(os.sched_getaffinity(0))
    return [str(own)], ["taskset", "--cpu-list", str(other)]


def shown(plan: Plan, way: str, ranks: int, megabytes: int) -> tuple[float, float]:
    """Give the launching side's CPU seconds per GB, and the seconds of the slowest rank."""
    at, logs = plan.directory(), plan.directory()
    own, others = _cpus(ranks)
    writer = [program("write_lines"), str(megabytes), str(at), *own]
    command = [*others, PYTHON, program("launch_logged"), way, str(ranks), str(logs), *writer]
    console = [*others, "wc", "-l"]
    with subprocess.Popen(console, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        subprocess.run(command, stdout=reader.stdin, check=True, timeout=PATIENCE)
        lines = int(reader.communicate()[0])
    expected = ranks * int(megabytes * 1e6) // LINE
    if lines != expected:
        raise RuntimeError(f"{way}: {lines} of {expected} lines came to the console")
    cpu = float((logs / "launcher").read_text())
    return cpu / (ranks * megabytes / 1e3), slowest(at, ranks)


def alone(plan: Plan, ranks: int, megabytes: int) -> tuple[float, float]:
    at, files = plan.directory(), plan.directory()
    writer = [PYTHON, program("write_lines"), str(megabytes), str(at), *_cpus(ranks)[0]]
    run([PYTHON, limit("spawn_wait"), str(ranks), str(files), *writer])
    for file in files.iterdir():
        file.unlink()  # memory that the next one may need
    return 0.0, slowest(at, ranks)


def measure(plan: Plan) -> list[Figure]:
    megabytes = QUICK_MEGABYTES if plan.quick else MEGABYTES

    def ways(ranks: int) -> dict[str, list[tuple[float, float]]]:
        return alternate(
            {
                "ours": lambda: shown(plan, "tee", ranks, megabytes),
                "peer": lambda: shown(plan, "elastic", ranks, megabytes),
                "limit": lambda: alone(plan, ranks, megabytes),
            },
            plan.repeat,
        )

    many, one = ways(RANKS), ways(1)
    cpu = {side: taken for side, taken in nth(many, 0).items() if side != "limit"}
    return [
        Figure("launcher's CPU per GB", "s", "elastic", cpu, (Goal(1 / 20, "peer"),)),
        Figure("slowest of 4 ranks", "s", "elastic", nth(many, 1)),
        Figure("a rank with a core to spare", "s", "elastic", nth(one, 1), (Goal(1.02, "limit"),)),
    ]
