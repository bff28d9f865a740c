"""Runs a row: a worker makes the trials, and one that hangs is ended, told, and passed over."""

from __future__ import annotations

import functools
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import processes
from chaos.row import Row

ROOT = Path(__file__).parent.parent
COMMAND = (sys.executable, "-m", "chaos.worker")
# Mounts and shared memory of its own: what is there was left by a trial.
ALONE = ("unshare", "--mount", "--ipc", "--", "sh", "-c")
MOUNTED = 'mount -t tmpfs none /dev/shm && CHAOS_ALONE=1 exec "$@"'


@dataclass
class Told:
    """What all trials of a row told. failed: those with problems, as the worker told of them."""

    trials: int = 0
    seconds: float = 0.0
    failed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[str] = field(default_factory=list[str])
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, told: dict[str, Any]) -> None:
        """Add a trial."""
        self.trials += 1
        if told["problems"]:
            self.failed.append(told)
        for name, value in told["figures"].items():
            self.figures.setdefault(name, []).append(value)
        for name, number in told["counts"].items():
            self.counts[name] = self.counts.get(name, 0) + number


def run_row(
    name: str, row: Row, trials: int, seed: int, say: Callable[[str], object] = print
) -> Told:
    """Make trials with the seeds from `seed` on; each that fails is said."""
    told, began = Told(), time.monotonic()
    while told.trials < trials:
        with _Worker(name, seed + told.trials, trials - told.trials) as worker:
            while told.trials < trials:
                one = worker.next(row.limit) or {
                    "seed": seed + told.trials,
                    "done": worker.done(),
                    "problems": [worker.why],
                    "figures": {},
                    "counts": {},
                }
                told.add(one)
                if one["problems"]:
                    said = "\n    ".join([*one["done"], *one["problems"]])
                    say(f"  {name} failed, python -m chaos {name} --seed {one['seed']}\n    {said}")
                if worker.why:
                    break
    told.problems = list(row.whole(told.counts))
    for problem in told.problems:
        say(f"  {name}: {problem}")
    told.seconds = time.monotonic() - began
    return told


def new_seed() -> int:
    """Give what a run starts from."""
    return random.SystemRandom().randrange(10**8)


@functools.cache
def _alone() -> bool:
    """Tell whether this user may have mounts of its own."""
    try:
        return not subprocess.run(
            [*ALONE, MOUNTED, "sh", "true"], capture_output=True, check=False
        ).returncode
    except OSError:
        return False


class _Worker:
    """A worker process. why: why it came to no end, "" while it goes on."""

    def __init__(self, name: str, seed: int, count: int) -> None:
        self.why = ""
        self._place = Path(tempfile.mkdtemp(prefix="chaos-"))
        self._mark = uuid.uuid4().hex
        self._report, theirs = os.pipe()
        argv = [*COMMAND, name, str(seed), str(count)]
        argv += [str(theirs), str(self._place)]
        with open(self._place / "console", "ab") as console:
            self._process = subprocess.Popen(
                [*ALONE, MOUNTED, "sh", *argv] if _alone() else argv,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs,),
                env=_environment(self._mark, self._place),
                start_new_session=True,
            )
        os.close(theirs)
        self._heard = b""

    def next(self, seconds: float) -> dict[str, Any] | None:
        """Give what the next trial told, or None when there is none: see `why`."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self._report], [], [], wait)[0]:
                os.kill(self._process.pid, signal.SIGUSR1)
                time.sleep(0.5)
                self.why = f"hung: no end after {seconds:g} s{self._console()}"
                return None
            data = os.read(self._report, 65536)
            if not data:
                self.why = f"the launcher ended: {self._process.wait()}{self._console()}"
                return None
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def done(self) -> list[str]:
        """Give what the trial that is not over has done."""
        try:
            return (self._place / "trial" / "done").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _console(self) -> str:
        text = (self._place / "console").read_text(encoding="utf-8", errors="replace")
        return f"; its console: {text[-3000:]}"

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self.why or error is not None:
            self._process.kill()
        self._process.wait()
        os.close(self._report)
        processes.kill_marked(self._mark)
        processes.wait_gone(self._mark, 10)
        shutil.rmtree(self._place, ignore_errors=True)


def _environment(mark: str, place: Path) -> dict[str, str]:
    """Give a worker's variables: nothing of a launcher around, or of its user's settings."""
    mine = ("PROCESSION_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(mine)}
    return {**env, processes.MARK: mark, "OMP_NUM_THREADS": "1", "CHAOS_PLACE": str(place)}
