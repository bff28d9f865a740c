"""Where the time of one cold start goes: 8 ranks of a script that imports torch; no goals."""

import json
import os
import statistics
import time
from itertools import pairwise
from pathlib import Path

from figures import Figure
from measure import PROCESSION, PYTHON, TORCHRUN, alternate, limit, program, run
from script import Plan, main

RANKS = 8
RANK = program("stage_rank")
STAGES = ("until the first rank", "until the last rank", "until all have torch", "the end")
SIGNS = "▒░█·"
WIDTH = 60


def stages(command: list[str], directory: Path) -> list[float]:
    """Give the seconds of each stage: the moments are those that the ranks themselves noted."""
    begin = time.monotonic()
    run([*command, str(directory)])
    end = time.monotonic()
    noted = [json.loads(p.read_text()) for p in directory.iterdir()]
    if len(noted) != RANKS:
        raise RuntimeError(f"{len(noted)} of {RANKS} ranks have noted their times")
    forked = [n["forked"] for n in noted]
    moments = [begin, min(forked), max(forked), max(n["imported"] for n in noted), end]
    return [max(0.0, after - before) for before, after in pairwise(moments)]


def picture(rows: dict[str, list[float]]) -> str:
    """Draw the stages of each launcher as one bar of text, all on one scale."""
    scale = WIDTH / max(sum(row) for row in rows.values())
    lines: list[str] = []
    for name, row in rows.items():
        ends = [round(sum(row[: k + 1]) * scale) for k in range(len(row))]
        widths = [b - a for a, b in pairwise([0, *ends])]
        bar = "".join(sign * width for sign, width in zip(SIGNS, widths, strict=True))
        lines.append(f"{name:<12}{bar.ljust(WIDTH)} {sum(row):.2f} s")
    key = "  ".join(f"{s} {n}" for s, n in zip(SIGNS, STAGES, strict=True))
    return "\n".join([*lines, f"{'':<12}{key}"])


def measure(plan: Plan) -> list[Figure]:
    def ours() -> list[float]:
        os.environ["XDG_CACHE_HOME"] = str(plan.directory())
        return stages([*PROCESSION, "-n", str(RANKS), RANK], plan.directory())

    samples = alternate(
        {
            "ours": ours,
            "peer": lambda: stages(
                [*TORCHRUN, "--nproc-per-node", str(RANKS), RANK], plan.directory()
            ),
            "limit": lambda: stages(
                [PYTHON, limit("fork_ranks"), str(RANKS), "torch", RANK], plan.directory()
            ),
        },
        plan.repeat,
    )
    return [
        Figure(name, "s", "torchrun", {s: [row[k] for row in rows] for s, rows in samples.items()})
        for k, name in enumerate(STAGES)
    ]


def drawn(figures: list[Figure]) -> str:
    names = {"ours": "procession", "peer": "torchrun", "limit": "by hand"}
    return picture(
        {name: [statistics.median(f.samples[s]) for f in figures] for s, name in names.items()}
    )


if __name__ == "__main__":
    main(__doc__, measure, most_seconds=600, draw=drawn)
