"""Makes trials: python -m chaos.worker ROW SEED COUNT FD PLACE, and tells of each.

A process of its own, so that a trial that hangs, or takes its launcher with it, is one failure.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from pathlib import Path

from chaos import processes
from chaos.judging import Surroundings
from chaos.row import Row, Trial
from chaos.rows import row_of

TOLD = ("seed", "done", "problems", "figures", "counts")


def main() -> None:
    """Make the trials that the command line names."""
    name, seed, count, fd, place = sys.argv[1:]
    row, report = row_of(name), os.fdopen(int(fd), "w", encoding="utf-8")
    os.set_inheritable(int(fd), False)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: with the runner
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A shell has these ignored in what it runs in the background, and trials end ranks by them.
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Who asks for the stacks of a trial that hangs, gets them and an end.
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    for folder in ("cache", "state"):
        os.environ[f"XDG_{folder.upper()}_HOME"] = f"{place}/{folder}"
    for first in range(int(seed), int(seed) + int(count)):
        trial = make_trial(row, first, Path(place))
        told = {name: getattr(trial, name) for name in TOLD}
        print(json.dumps(told), file=report, flush=True)


def make_trial(row: Row, seed: int, place: Path) -> Trial:
    """Make one trial in a directory that is empty, and judge it."""
    here = place / "trial"
    shutil.rmtree(here, ignore_errors=True)
    for folder in ("tmp", "runtime", "work"):
        (here / folder).mkdir(parents=True, mode=0o700)
    os.environ["TMPDIR"] = str(here / "tmp")
    os.environ["XDG_RUNTIME_DIR"] = str(here / "runtime")
    import tempfile

    tempfile.tempdir = str(here / "tmp")
    os.ftruncate(1, 0)
    trial = Trial(seed, here)
    around = Surroundings(os.environ[processes.MARK])
    # An idle agent is kept in every other trial: launches from one, and launches without.
    kept = trial.chance.random() < 0.5
    try:
        row.strike(trial)
    except BaseException:
        trial.problems.append(f"raised in the trial: {traceback.format_exc()}")
    import procession.forkserver

    if not kept:
        procession.forkserver.close()
    around.judge(trial, idle=2 if kept else 0)
    if trial.problems:  # the next trial is to find nothing of this one
        procession.forkserver.close()
        processes.kill_marked(os.environ[processes.MARK])
    return trial


if __name__ == "__main__":
    main()
