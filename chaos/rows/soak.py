"""Long work: thousands of groups, hundreds of restarts, gigabytes of output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from chaos.programs import soaking
from chaos.row import Row, Trial, number_from
from chaos.runner import ROOT

# CHAOS_SOAK: how much of the full work is done.
USUAL = "1" if os.environ.get("CHAOS_TRIALS") == "full" else "0.1"
SHORT = os.environ.get("CHAOS_SHORT") == "1"
SCALE = number_from("CHAOS_SOAK", "0.004" if SHORT else USUAL, 0.001)
WORK = {"groups": 10_000, "restarts": 500, "logs": 10_000}  # the last in millions of bytes
LOOKS = Path(__file__).parent.parent / "soak.json"
MOST_MEMORY = 12_000  # KiB more at the end than after the first quarter


def strike(trial: Trial) -> None:
    """Do all three, and look at what the launcher has meanwhile."""
    kept: dict[str, list[dict[str, Any]]] = {}
    for kind, full in WORK.items():
        count = max(10, round(full * SCALE))
        trial.do(f"{kind}: {count}")
        kept[kind] = _soak(trial, kind, count)
    if "CHAOS_KEEPS" in os.environ and SCALE >= 0.1 and not trial.problems:
        told = {"scale": SCALE, "work": WORK, "looks": kept}
        LOOKS.write_text(json.dumps(told, indent=1) + "\n")


def _soak(trial: Trial, kind: str, count: int) -> list[dict[str, Any]]:
    place = trial.place / "work" / kind
    place.mkdir()
    began = time.monotonic()
    errors = place / "errors"
    with open(os.devnull, "wb") as nothing, open(errors, "wb") as f:
        done = subprocess.run(
            [sys.executable, soaking.__file__, kind, str(count), str(place)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=nothing,
            stderr=nothing if kind == "restarts" else f,
            check=False,
        )
    trial.figures[f"{count} {kind}"] = time.monotonic() - began
    trial.must(done.returncode == 0, f"{kind}: {done.returncode} {errors.read_text()[-1500:]}")
    looks = [json.loads(line) for line in (place / "looks").read_text().splitlines()]
    later = looks[len(looks) // 4 :] or looks
    first, last = later[0], later[-1]
    for what, most in (("descriptors", 2), ("threads", 1), ("memory", MOST_MEMORY)):
        grown = last[what] - first[what]
        # In a short form a moment of the work is compared with another one: that says nothing.
        trial.must(
            grown <= most or SCALE < 0.05, f"{kind}: {what} grow from {first[what]} to {last[what]}"
        )
    trial.counts[f"{kind}: memory at the end, KiB"] = last["memory"]
    return looks


ROW = Row(
    fault="10,000 groups one after the other; 500 restarts of one group with `--tee`; 10 GB of "
    "output on the console" + f" (times {SCALE:g})" * (SCALE != 1),
    holds="descriptors, threads and memory of the launcher stay as they were after a quarter of it",
    full=1,
    trials=1,
    short=1,
    strike=strike,
    limit=1800,
)
