"""Writes into the README how long launches take, from benchmarks/results.json.

The figures are those of docs/background/comparison.md, medians of all samples.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from markers import between

HOME = Path(__file__).parents[1]
RESULTS, PAGE = HOME / "benchmarks" / "results.json", HOME / "README.md"
# (benchmark, its figure): what a reader sees
ROWS = {
    ("start_torch_script", "16 ranks, to the end"): "16 ranks of a script that imports torch",
    ("start_ddp", "first run"): "8 ranks of a DDP script",
    ("start_torch_function", "first launch"): "16 ranks of a function that needs torch",
    ("restart", "failure to all at work"): "a restart: from the failure until all ranks work again",
    ("import", "`procession run true`"): "the launcher alone: `procession run true`",
}


def files() -> dict[Path, str]:
    """Give the page, with the table between its markers."""
    told = json.loads(RESULTS.read_text(encoding="utf-8"))["benchmarks"]
    lines = ["| seconds for | procession | instead of |", "|---|---|---|"]
    for (benchmark, name), said in ROWS.items():
        figure = next(f for f in told[benchmark]["figures"] if f["name"] == name)
        unit = {"s": 1.0, "ms": 1e-3}[figure["unit"]]
        ours, peer = (statistics.median(figure["samples"][s]) * unit for s in ("ours", "peer"))
        lines.append(f"| {said} | {ours:.2g} | {peer:.2g} ({figure['peer']}) |")
    text = "\n".join(lines)
    return {PAGE: between(PAGE.read_text(encoding="utf-8"), "start times", text)}
