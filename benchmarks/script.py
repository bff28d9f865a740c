"""The face of every benchmark: its options, its time limit, and nothing left behind."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from figures import Figure
from table import table

PR_SET_CHILD_SUBREAPER = 36
REPEAT, QUICK_REPEAT = 5, 2


@dataclass(frozen=True)
class Plan:
    """How a benchmark is to measure.

    repeat: how many samples of each way. quick: take less of what takes long. scratch: a directory
    that goes with the benchmark.
    """

    repeat: int
    quick: bool
    scratch: Path

    def directory(self) -> Path:
        """Make a new, empty directory."""
        return Path(tempfile.mkdtemp(dir=self.scratch))


def main(
    work: str | None,
    measure: Callable[[Plan], list[Figure]],
    most_seconds: float,
) -> None:
    """Run the benchmark that is the main program, and print what it found.

    work: what it does, in a sentence. most_seconds: after which it is ended, and fails.
    """
    parser = argparse.ArgumentParser(description=work)
    parser.add_argument("--json", action="store_true", help="print JSON, with all samples")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REPEAT} samples, of less")
    parser.add_argument("--repeat", type=int, help=f"samples of each way (default: {REPEAT})")
    options = parser.parse_args()
    repeat = options.repeat or (QUICK_REPEAT if options.quick else REPEAT)
    # What a launcher orphans comes to this process, which ends it.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, _late)
    signal.signal(signal.SIGTERM, _told_to_end)
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark_") as scratch:
            _equal_environment(scratch)
            signal.setitimer(signal.ITIMER_REAL, most_seconds)
            try:
                found = measure(Plan(repeat, options.quick, Path(scratch)))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                _end_all_below()
    except TimeoutError as e:
        sys.exit(f"{Path(sys.argv[0]).stem}: {str(e) or f'took longer than {most_seconds:g} s'}")
    told = {
        "benchmark": Path(sys.argv[0]).stem,
        "work": work,
        "repeat": repeat,
        "quick": options.quick,
        "seconds": round(time.monotonic() - begin, 1),
        "figures": [figure.as_dict() for figure in found],
    }
    if options.json:
        print(json.dumps(told))
    else:
        print(table([told]))


def _equal_environment(scratch: str) -> None:
    """Let all ways have the same variables, and caches and temporary files of their own."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    # An installed package has its bytecode; that of a source tree is written by its first run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in ("cache", "tmp"):
        os.mkdir(os.path.join(scratch, name))
    os.environ["XDG_CACHE_HOME"] = os.path.join(scratch, "cache")
    os.environ["TMPDIR"] = os.path.join(scratch, "tmp")
    os.environ["OMP_NUM_THREADS"] = "1"  # what torchrun sets; mp.spawn would not


def _end_all_below() -> None:
    me = os.getpid()
    while True:
        with open(f"/proc/{me}/task/{me}/children") as f:
            children = [int(word) for word in f.read().split()]
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _late(*_: object) -> NoReturn:
    raise TimeoutError


def _told_to_end(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)
