"""The same faults under procession, torchrun and torch.multiprocessing.spawn, side by side.

python -m chaos.compare [TRIALS] [--write]    # in an environment that has torch; 3 trials of each

Each launcher has the same 4 ranks, in plain Python. --write: into docs/reliability.md.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import processes
from chaos.launchers import OWN, Launcher
from chaos.programs.peer_rank import WAYS
from chaos.results import PAGE, between
from chaos.runner import ROOT

NPROC, START, PATIENCE = 4, 60.0, 40.0  # seconds
PROGRAMS = ROOT / "chaos" / "programs"
RANK = str(PROGRAMS / "peer_rank.py")
HERE = Path(sys.executable).parent
AT_ONCE = ("_exit", "SIGKILL", "SIGSEGV")  # the process is gone in the moment of its failure

# (how it starts the ranks, what in its output names the rank that failed first)
LAUNCHERS: dict[str, tuple[list[str], str]] = {
    "procession run": (
        [str(HERE / "procession"), *("run", "-n", str(NPROC), "--shutdown-timeout", "3", RANK)],
        r"failed: (?:rank|ranks) ([\d, and-]+) ",
    ),
    "torchrun": (
        [
            *(str(HERE / "torchrun"), "--nproc-per-node", str(NPROC), "--tee", "3"),
            *("--shutdown-timeout", "3", "--log-dir", "logs", RANK),
        ],
        r"(?s)Root Cause \(first observed failure\):.*?rank +: (\d+)",
    ),
    "mp.spawn": (
        [sys.executable, str(PROGRAMS / "peer_spawn.py"), str(NPROC)],
        r"[Pp]rocess (\d+) terminated with",
    ),
}


def _fails(chance: random.Random) -> dict[str, Any]:
    return {"losers": [[chance.randrange(NPROC), chance.choice(WAYS), 0.0]]}


def _two(chance: random.Random) -> dict[str, Any]:
    one, other = chance.sample(range(NPROC), 2)
    gap = chance.choice((0.005, 0.02, 0.05, 0.1))
    return {"losers": [[one, chance.choice(AT_ONCE), 0.0], [other, chance.choice(AT_ONCE), gap]]}


def _stubborn(chance: random.Random) -> dict[str, Any]:
    loser, other = chance.sample(range(NPROC), 2)
    return {"losers": [[loser, chance.choice(WAYS), 0.0]], "ignores": [other]}


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


@dataclass
class Seen:
    """What was seen of one trial. ended: seconds until nothing was there, None for too long."""

    named: str
    ended: float | None


def make_trial(launcher: str, fault: str, seed: int) -> Seen:
    """Make a fault under a launcher, look what becomes of it, and end all that is left."""
    (argv, named), (plan_of, signals) = LAUNCHERS[launcher], FAULTS[fault]
    chance = random.Random(seed)
    plan = plan_of(chance)
    with tempfile.TemporaryDirectory(prefix="compare-") as place:
        work = Path(place)
        (work / "plan.json").write_text(json.dumps(plan))
        started = Launcher(argv, work)
        try:
            _wait_until_all_are_there(started, work)
            time.sleep(chance.uniform(0, 0.3))
            at = _strike(started, work, plan, signals)
            ended = _watch(started, at)
            stamps = sorted((float(p.read_text()), p.suffix[1:]) for p in work.glob("struck.?"))
            return Seen(_named(re.search(named, started.text()), stamps), ended)
        finally:
            while started.all():
                processes.kill_marked(started.own, OWN)
                started.process.poll()
                time.sleep(0.005)
            started.end(0.1)


def _wait_until_all_are_there(launcher: Launcher, work: Path) -> None:
    def there() -> bool:
        if launcher.process.poll() is not None:
            raise RuntimeError(f"it has ended: {launcher.text()[-1500:]}")
        return len([*work.glob("there.?")]) == NPROC

    if not processes.until(there, START):
        raise RuntimeError(f"its ranks did not start: {launcher.text()[-1500:]}")


def _strike(
    launcher: Launcher, work: Path, plan: dict[str, Any], signals: tuple[tuple[int, float], ...]
) -> float:
    """Let ranks fail, or send signals; gives when that was."""
    at = time.monotonic()
    for number, pause in signals:
        at = time.monotonic()
        launcher.send(number)
        time.sleep(pause)
    if "losers" in plan:
        at = time.monotonic() + 0.05  # until then, all have seen it
        (work / "go.new").write_text(str(at))
        os.rename(work / "go.new", work / "go")
    return at


def _watch(launcher: Launcher, at: float) -> float | None:
    def gone() -> bool:
        launcher.process.poll()
        return not launcher.all()

    over = processes.until(gone, at + PATIENCE - time.monotonic())
    return max(time.monotonic() - at, 0.0) if over else None


def _named(found: re.Match[str] | None, stamps: list[tuple[float, str]]) -> str:
    """Say whether the rank that failed first is named as that, "" if none was to fail."""
    if not stamps:
        return ""
    told = {*re.findall(r"\d+", found[1])} if found else set[str]()
    first = stamps[0][1]
    return "right" if told == {first} else "with others" if first in told else "wrong"


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
    return f"{head}\n\n" + "\n".join(rows) + "\n"


def _cell(trials: list[Seen]) -> str:
    """Write what was seen of one fault under one launcher."""
    parts: list[str] = []
    if any(each.named for each in trials):
        right = sum(each.named == "right" for each in trials)
        parts.append(f"{right} of {len(trials)} named right")
    ended = [each.ended for each in trials if each.ended is not None]
    if ended:
        parts.append(f"all gone after {statistics.median(ended):.2g} s")
    if left := len(trials) - len(ended):
        parts.append(f"**processes left after {PATIENCE:g} s in {left} of {len(trials)}**")
    return ", ".join(parts)


def main() -> None:
    """Print the table, or write it."""
    words = [word for word in sys.argv[1:] if word.isdecimal()]
    text = table(int(words[0]) if words else 3)
    if "--write" in sys.argv:
        PAGE.write_text(between(PAGE.read_text(), "peers", text))
    else:
        print(f"\n{text}")


if __name__ == "__main__":
    main()
