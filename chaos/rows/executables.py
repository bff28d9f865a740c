"""What ranks shall run cannot be executed, from the start on, or when they start again."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import procession
from chaos import processes
from chaos.launchers import COMMAND, Launcher
from chaos.programs import executable
from chaos.row import SLOW, Row, Trial
from chaos.rows import disk

GRACE = 0.2
MOUNTED = "on a disk of no programs"


def strike(trial: Trial) -> None:
    """Run a group of such a program, or one beside good ones, or a good one that becomes so."""
    chance, work = trial.chance, trial.place / "work"
    kind = chance.choice([k for k in executable.KINDS if k != MOUNTED or not disk.lacks()])
    how = chance.choice(("all ranks", "beside good ones", "when they start again"))
    named = chance.choice(("path", "relative", "PATH"))
    trial.do(f"{how}: {kind}, by {named}")
    place = work / "bin"
    place.mkdir()
    bad = place / "program"
    executable.write(bad, executable.GOOD)
    word = {"path": str(bad), "relative": "bin/program", "PATH": "program"}[named]
    path = f"{place}{os.pathsep}{os.environ['PATH']}"
    began = time.monotonic()
    if how == "all ranks":
        with executable.spoiled(bad, kind):
            said = _said(word, work, path)
    elif how == "beside good ones":
        said = _beside(trial, bad, word, kind, path)
    else:
        said = _again(bad, word, kind, work, path)
    trial.took("until the end", time.monotonic() - began, GRACE + 2)
    reasons = (*executable.KINDS[kind][1], *(("on the PATH",) if named == "PATH" else ()))
    trial.must(any(w in said for w in reasons), f"no reason: {said[:1500]}")
    refused = said.startswith("procession run: error")  # it names the program
    rank = "rank 2" if how == "beside good ones" else "rank"
    trial.must(refused or rank in said, f"no rank: {said[:1500]}")
    trial.count(how)
    trial.must(procession.run(int, nproc=2, timeout=20 * SLOW) == [0, 0], "the next launch")


def _said(word: str, work: Path, path: str, **more: Any) -> str:
    """Run a group, and give what is said of its failure. more: of `procession.run`."""
    try:
        procession.run(
            [word],
            nproc=3,
            cwd=work,
            env={"PATH": path},
            stop=procession.Stop(grace=GRACE, linger=GRACE),
            timeout=20 * SLOW,
            **more,
        )
    except procession.ProcessionError as e:
        return str(e)
    return "it went well"


def _beside(trial: Trial, bad: Path, word: str, kind: str, path: str) -> str:
    good = bad.parent.parent / "good"
    executable.write(good, executable.GOOD)
    argv = [COMMAND, "run", "-n", "2", "--shutdown-timeout", str(GRACE), "--no-python", str(good),
            ":", "-n", "1", "--no-python", word]  # fmt: skip
    with executable.spoiled(bad, kind):
        launcher = Launcher(argv, good.parent, {"PATH": path})
        code = launcher.end(20 * SLOW)
    trial.must(code not in (None, 0), f"exit code: {code}")
    left, _ = launcher.wait_gone(1 * SLOW)
    trial.must(not left, f"alive: {processes.named(left)}")
    return launcher.text()


def _again(bad: Path, word: str, kind: str, work: Path, path: str) -> str:
    """Have a good program fail, and be spoiled before it is started again."""
    executable.write(bad, "#!/bin/sh\nexit 3\n")
    with contextlib.ExitStack() as spoiled:

        def spoil(_: procession.GroupEnd) -> None:
            spoiled.enter_context(executable.spoiled(bad, kind))

        again = procession.Restart(max=1)
        return _said(word, work, path, restart=again, on_failure=spoil)


ROW = Row(
    fault="the program of all ranks, or of some beside good ones, or one that was good before a "
    "restart, is missing, a directory, not executable, no program, for another machine, torn, has "
    "no interpreter, is being written, or lies on a disk of no programs",
    holds="refused, or failed with that reason and the rank; nothing left; the next launch works",
    full=150,
    trials=25,
    short=4,
    strike=strike,
)
