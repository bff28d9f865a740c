"""The same faults under procession, torchrun and torch.multiprocessing.spawn, side by side.

python -m chaos.compare [TRIALS] [--write]    # in an environment that has torch; 3 trials of each

Each launcher has the same 4 ranks, in plain Python. --write: into docs/background/guarantees.md.
"""

from __future__ import annotations

import json
import os
import platform
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos import processes
from chaos.launchers import COMMAND, OWN, Launcher
from chaos.programs import pairs, peer_rank
from docs.markers import between

PAGE = Path(__file__).parent.parent / "docs" / "background" / "guarantees.md"
NPROC, START, PATIENCE = 4, 60.0, 40.0  # seconds
RANK = peer_rank.__file__
AT_ONCE = pairs.KINDS[2:]  # the process is gone in the moment of its failure
COUNT, STOP = str(NPROC), ("--shutdown-timeout", "3")

# (how it starts the ranks, what in its output names the rank that failed first)
LAUNCHERS: dict[str, tuple[list[str], str]] = {
    "procession run": (
        [COMMAND, "run", "-n", COUNT, *STOP, RANK],
        r"failed: (?:rank|ranks) ([\d, and-]+) ",
    ),
    "torchrun": (
        [
            *(str(Path(COMMAND).with_name("torchrun")), "--nproc-per-node", COUNT, "--tee", "3"),
            *(*STOP, "--log-dir", "logs", RANK),
        ],
        r"(?s)Root Cause \(first observed failure\):.*?rank +: (\d+)",
    ),
    "mp.spawn": ([sys.executable, RANK, COUNT], r"[Pp]rocess (\d+) terminated with"),
}


def _fails(chance: random.Random) -> dict[str, Any]:
    losers, kind = chance.sample(range(NPROC), 2), chance.choice(pairs.KINDS)
    return {"nproc": NPROC, "losers": losers, "kinds": (kind, kind), "gap": 2 * PATIENCE}


def _two(chance: random.Random) -> dict[str, Any]:
    kinds = (chance.choice(AT_ONCE), chance.choice(AT_ONCE))
    return {**_fails(chance), "kinds": kinds, "gap": chance.choice((0.005, 0.02, 0.05, 0.1))}


def _stubborn(chance: random.Random) -> dict[str, Any]:
    plan = _fails(chance)
    return {**plan, "ignores": plan["losers"][1:]}


# fault: (what ranks do, what the launcher gets, and seconds before the next)
Fault = tuple[Callable[[random.Random], dict[str, Any]], tuple[tuple[int, float], ...]]
FAULTS: dict[str, Fault] = {
    "a rank fails (exception, exit code, SIGKILL, SIGSEGV)": (_fails, ()),
    "two ranks fail, 5 to 100 ms apart": (_two, ()),
    "a rank fails, another one ignores SIGTERM; `--shutdown-timeout 3`": (_stubborn, ()),
    "SIGTERM to the launcher": (lambda _: {}, ((signal.SIGTERM, 0.0),)),
    "Ctrl-C twice, 0.3 s apart; a rank ignores SIGTERM": (
        lambda chance: {"ignores": [chance.randrange(NPROC)]},
        ((signal.SIGINT, 0.3), (signal.SIGINT, 0.0)),
    ),
    "SIGKILL to the launcher; each rank has a child": (
        lambda _: {"children": True},
        ((signal.SIGKILL, 0.0),),
    ),
}


# How the first is named, and the seconds until nothing was there, None for too long.
Seen = tuple[str, float | None]


def make_trial(launcher: str, fault: str, seed: int) -> Seen:
    """Make a fault under a launcher, look what becomes of it, and end all that is left."""
    (argv, named), (plan_of, signals) = LAUNCHERS[launcher], FAULTS[fault]
    with tempfile.TemporaryDirectory(prefix="compare-") as place:
        work = Path(place)
        (work / "plan.json").write_text(json.dumps(plan_of(random.Random(seed))))
        started = Launcher(argv, work)

        def gone() -> bool:
            started.process.poll()
            return not started.all()

        try:
            begun = "there.?" if signals else "at"
            wanted = NPROC if signals else 1
            if not processes.until(lambda: len([*work.glob(begun)]) == wanted, START):
                raise RuntimeError(f"its ranks did not start: {started.text()[-1500:]}")
            at = 0.0 if signals else int((work / "at").read_text()) / 1e9
            for number, pause in signals:
                at = time.monotonic()
                started.process.send_signal(number)
                time.sleep(pause)
            over = processes.until(gone, at + PATIENCE - time.monotonic())
            ended = max(time.monotonic() - at, 0.0) if over else None
            stamps = sorted((int(p.read_text() or 0), p.suffix[1:]) for p in work.glob("stamp.?"))
            first = [rank for stamp, rank in stamps if stamp]
            return _named(re.search(named, started.text()), first), ended
        finally:
            while not gone():
                processes.kill_marked(started.own, OWN)
            started.end(0.1)


def _named(found: re.Match[str] | None, failed: list[str]) -> str:
    """Say whether the rank that failed first is named as that, and alone; "" if none failed."""
    told = {*re.findall(r"\d+", found[1])} if found else set[str]()
    return "" if not failed else "right" if told == {failed[0]} else "wrong"


def table(trials: int) -> str:
    """Make all trials, in turn, and give the table."""
    seen: dict[tuple[str, str], list[Seen]] = {(f, by): [] for f in FAULTS for by in LAUNCHERS}
    for seed in range(trials):
        for (fault, launcher), trials_of in seen.items():
            trials_of.append(make_trial(launcher, fault, seed))
            print(".", end="", file=sys.stderr, flush=True)
    rows = ["| fault | " + " | ".join(LAUNCHERS) + " |", "|---" * (len(LAUNCHERS) + 1) + "|"]
    for fault in FAULTS:
        cells = [_cell(seen[fault, by]) for by in LAUNCHERS]
        rows.append(f"| {' | '.join([fault, *cells])} |")
    day = time.strftime("%Y-%m-%d", time.gmtime())
    head = f"{trials} trials of each, {day}, Linux {platform.release()}, {os.cpu_count()} cores."
    return f"{head}\n\n" + "\n".join(rows)


def _cell(trials: list[Seen]) -> str:
    """Write what was seen of one fault under one launcher."""
    parts: list[str] = []
    if any(named for named, _ in trials):
        right = sum(named == "right" for named, _ in trials)
        parts.append(f"{right} of {len(trials)} named right")
    ended = [seconds for _, seconds in trials if seconds is not None]
    if ended:
        parts.append(f"all gone after {statistics.median(ended):.2g} s")
    if left := len(trials) - len(ended):
        parts.append(f"**processes left after {PATIENCE:g} s in {left} of {len(trials)}**")
    return ", ".join(parts)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # for who runs it in the background
    words = [word for word in sys.argv[1:] if word.isdecimal()]
    text = table(int(words[0]) if words else 3)
    if "--write" in sys.argv:
        PAGE.write_text(between(PAGE.read_text(), "peers", text))
    else:
        print(f"\n{text}")
