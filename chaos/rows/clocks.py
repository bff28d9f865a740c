"""The clock is set back and forth, everything stands still, numbers of processes come again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from chaos import processes
from chaos.holding import send
from chaos.launchers import Launcher
from chaos.programs import strangers, timed
from chaos.row import SLOW, Row, Trial

SHORT = os.environ.get("CHAOS_SHORT") == "1"
LIMIT = 1.2 * SLOW  # seconds without a sign of life
# Of work: so the launcher looks for signs of life meanwhile.
SECONDS = 1.0 if SHORT else 2.5 * LIMIT
YEARS = 10 * 365 * 86400
STRANGERS = 1_000 if SHORT else 10_000


def strike(trial: Trial) -> None:
    """Do one of the three."""
    kinds = ["still", *["clock"] * (shutil.which("cc") is not None)]
    kinds += ["numbers"] * strangers.small_namespaces()
    kind = trial.chance.choice(kinds)
    {"clock": _clock, "still": _still, "numbers": _numbers}[kind](trial)


def _start(trial: Trial, end: str, env: dict[str, str] | None = None) -> Launcher | None:
    """Start a launcher, and wait for its ranks."""
    work = trial.place / "work"
    words = [str(work), str(SECONDS if end != "stopped" else 100.0), str(LIMIT), end]
    launcher = Launcher([sys.executable, timed.__file__, *words], work, env)
    deadline = time.monotonic() + 20 * SLOW
    while len([*work.glob("there.*")]) < 3:
        if time.monotonic() > deadline:
            trial.problems.append(f"no ranks: {launcher.text()[-800:]}")
            launcher.end(0)
            return None
        time.sleep(0.005)
    return launcher


def _end(trial: Trial, launcher: Launcher, end: str) -> None:
    """Wait for the end of a launcher, and judge what it said."""
    code = launcher.end(20 * SLOW)
    said = launcher.text()
    wanted = "stopped after" if end == "stopped" else "values [0, 1, 2]"
    trial.must(code == 0 and wanted in said, f"exit code {code}: {said[-800:]}")
    if end == "stopped" and "stopped after" in said:
        took = float(said.partition("stopped after ")[2].split()[0])
        trial.took("a stop, the clock set", took, timed.GRACE + 1)
        trial.must(took > timed.GRACE - 0.1, f"killed after {took:.2f} s of {timed.GRACE} s")
    left, _ = launcher.wait_gone(SLOW)
    trial.must(not left, f"alive: {processes.named(left)}")


def _clock(trial: Trial) -> None:
    """Set the time of day of a launcher and its ranks back and forth."""
    chance, work = trial.chance, trial.place / "work"
    end = chance.choice(("well", "restart", "stopped"))
    trial.do(f"the clock is set back and forth, {end}")
    library, offset = work / "clock.so", work / "offset"
    source = Path(timed.__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    offset.write_bytes(struct.pack("=q", chance.randrange(-YEARS, YEARS)))
    began = time.monotonic()
    env = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(offset)}
    launcher = _start(trial, end, env)
    if launcher is None:
        return
    if end == "stopped":
        (work / "stop").touch()
    with open(offset, "r+b", buffering=0) as f:
        while launcher.process.poll() is None and time.monotonic() < began + 15 * SLOW:
            f.seek(0)
            f.write(struct.pack("=q", chance.choice((0, 1, -1, 3600, -3600, YEARS, -YEARS))))
            time.sleep(chance.uniform(0.001, 0.05))
    _end(trial, launcher, end)
    trial.count(f"the clock, {end}")


def _still(trial: Trial) -> None:
    """Stop a launcher, its forkserver and its ranks for a while, and let them go on."""
    chance, work = trial.chance, trial.place / "work"
    end = chance.choice(("well", "restart", "stopped"))
    seconds = 2.0 + LIMIT if SHORT else chance.choice((2.0 + LIMIT, 2.0 + LIMIT, 30.0))
    after = chance.uniform(0, SECONDS / 2)
    trial.do(f"everything stands still for {seconds:g} s after {after:.3f} s, {end}")
    launcher = _start(trial, end)
    if launcher is None:
        return
    if end == "stopped":
        (work / "stop").touch()
    time.sleep(after)
    stopped = list[int]()
    while new := [pid for pid in launcher.all() if pid not in stopped]:
        for pid in new:  # whoever is not stopped yet may have started another one
            send(pid, signal.SIGSTOP)
        stopped += new
    time.sleep(seconds)
    chance.shuffle(stopped)
    for pid in stopped:
        send(pid, signal.SIGCONT)
    code = launcher.end(20 * SLOW)
    said = launcher.text()
    wanted = "stopped after" if end == "stopped" else "values [0, 1, 2]"
    trial.must(code == 0 and wanted in said, f"exit code {code}: {said[-800:]}")
    left, _ = launcher.wait_gone(SLOW)
    trial.must(not left, f"alive: {processes.named(left)}")
    trial.count(f"still, {end}")


def _numbers(trial: Trial) -> None:
    """Run groups beside strangers that get the numbers of processes that have ended."""
    trial.do(f"{STRANGERS} strangers in a namespace of {strangers.MOST_PIDS} numbers")
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable]
    words += [strangers.__file__, str(STRANGERS), str(trial.seed)]
    launcher = Launcher(words, trial.place / "work")
    code = launcher.end((30 + STRANGERS / 100) * SLOW)
    said = launcher.text()
    try:
        told = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        trial.problems.append(f"exit code {code}: {said[-1500:]}")
        return
    trial.must(not told.get("hit", ["?"]), f"strangers got signals: {told.get('hit')}")
    trial.must(not told["wrong"], f"groups: {told['wrong'][:3]}")
    trial.must(told.get("again", 0) > 0, "no number came again")
    trial.count("numbers come again")
    trial.counts["groups beside strangers"] = told["groups"]
    trial.counts["strangers"] = told.get("strangers", 0)


ROW = Row(
    fault="the time of day is set back and forth by up to ten years; everything stands still for "
    f"up to 30 s (SIGSTOP); {STRANGERS:,} strangers get the numbers of processes that have ended, "
    f"in a namespace of {strangers.MOST_PIDS}",
    holds="no false timeout; the full grace; no signal to a stranger",
    full=40,
    trials=7,
    short=2,
    strike=strike,
    limit=120 * SLOW,
)
