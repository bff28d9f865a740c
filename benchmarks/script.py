"""Run one benchmark with a time limit, and leave nothing: `python benchmarks/script.py NAME`."""

import argparse
import ctypes
import json
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
REPEAT, QUICK_REPEAT = 5, 2
MOST_SECONDS = 1800.0  # after which a benchmark is ended, and fails


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


def main(arguments: list[str]) -> None:
    """Run a benchmark, a module with a `measure(plan)` beside this one; prints samples as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="a file in benchmarks/, without .py")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REPEAT} samples, of less")
    parser.add_argument("--repeat", type=int, help=f"samples of each way (default: {REPEAT})")
    options = parser.parse_args(arguments)
    measure = import_module(options.name).measure
    late = f"{options.name}: took longer than {MOST_SECONDS:g} s"
    repeat = options.repeat or (QUICK_REPEAT if options.quick else REPEAT)
    # What a launcher orphans comes to this process, which ends it.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, lambda _number, _frame: sys.exit(late))
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="benchmark_") as scratch:
        _equal_environment(scratch)
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        try:
            found = measure(Plan(repeat, options.quick, Path(scratch)))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            _end_all_below()
    told = {"benchmark": options.name, "repeat": repeat}
    print(json.dumps({**told, "figures": [figure.as_dict() for figure in found]}))


def _equal_environment(scratch: str) -> None:
    """Let all ways have the same variables, and caches and temporary files of their own."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    # An installed package has its bytecode; that of a source tree is written by its first run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for variable, name in (("XDG_CACHE_HOME", "cache"), ("TMPDIR", "tmp")):
        os.environ[variable] = os.path.join(scratch, name)
        os.mkdir(os.environ[variable])
    os.environ["OMP_NUM_THREADS"] = "1"  # what torchrun sets; mp.spawn would not


def _end_all_below() -> None:
    while children := psutil.Process().children():  # what they orphan comes next
        for child in children:
            child.kill()
        psutil.wait_procs(children)


if __name__ == "__main__":
    main(sys.argv[1:])
