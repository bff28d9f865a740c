"""Jobs of Slurm on two nodes, which it cancels, signals, ends at their time limit, or preempts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from chaos import processes
from chaos.processes import until
from chaos.programs import saving
from chaos.row import SLOW, Row, Trial
from chaos.rows import machines

RANKS = 4  # on two nodes
PROCESSION = f"{sys.executable} -m procession run"
DRIVE = f"""
import sys
import procession
procession.run([sys.executable, *sys.argv[1:]], engine="slurm", nproc={RANKS // 2})
"""
WAYS = {
    "the command, in a batch script": f"exec {PROCESSION} --engine slurm -n {RANKS // 2}",
    "procession.run, in a batch script": f"exec {sys.executable} drive.py",
    "under srun": f"srun --ntasks-per-node=1 {PROCESSION} -n {RANKS // 2}",
}
ENDS = {  # in what state the job is then
    "cancelled": ("CANCELLED",),
    "steps signalled": ("CANCELLED", "FAILED"),
    "preempted": ("PREEMPTED", "FAILED"),  # by Slurm after the grace, or by itself before that
    "time limit": ("TIMEOUT",),
}
OVER = ("CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "PREEMPTED", "TIMEOUT")
LIMIT_IS_SEEN = 35.0  # seconds: Slurm looks every 30 s
SAVES = 3.0  # seconds


def strike(trial: Trial) -> None:
    """Submit a job, have Slurm end it when all ranks are there, and look at what they could do."""
    chance, work = trial.chance, trial.place / "work"
    kind, way = [*ENDS][trial.seed % len(ENDS)], chance.choice([*WAYS])
    trial.do(f"{kind}: {way}")
    (work / "drive.py").write_text(DRIVE)
    (work / "job.sh").write_text(f"#!/bin/sh\n{WAYS[way]} {saving.__file__} {SAVES}\n")
    job = _submit(work, "job.sh", "--no-kill", "-p", "low" if kind == "preempted" else "main")
    try:
        there = until(lambda: len([*work.glob("there.*")]) == RANKS, 30 * SLOW)
        assert there, f"the job does not start: {_text(work)[-800:]}"
        time.sleep(chance.uniform(0, 0.3))
        began = time.time()
        _end(kind, job, work)
        state = _ended(job, (LIMIT_IS_SEEN + SAVES + 20) * SLOW)
        told = [f.stat().st_mtime for f in work.glob("begun.*")]
        if kind == "time limit" and told:
            began = min(told)  # Slurm's own time is not ours
        trial.took("until the job had ended, less saving", time.time() - began - SAVES, 8.0)
        _judge(trial, work, kind, state)
    finally:
        _slurm("scancel", "--signal=KILL", "--full", job)
        _slurm("scancel", "--user", str(os.getuid()))
        until(lambda: not _slurm("squeue", "-h"), 30 * SLOW)
    trial.count(f"{kind}, {way}")


def _end(kind: str, job: str, work: Path) -> None:
    """Have Slurm end it."""
    if kind == "cancelled":
        _slurm("scancel", job)
    elif kind == "steps signalled":
        _slurm("scancel", "--signal=TERM", job)
    elif kind == "time limit":
        _slurm("scontrol", "update", f"JobId={job}", "EndTime=now+1second")
    else:
        (work / "urgent.sh").write_text("#!/bin/sh\ntrue\n")
        _submit(work, "urgent.sh", "-p", "urgent", "--output=/dev/null")


def _judge(trial: Trial, work: Path, kind: str, state: str) -> None:
    text = _text(work)
    trial.must(state in ENDS[kind], f"the job is {state or 'still there'}: {text[-800:]}")
    for rank in range(RANKS):
        trial.must((work / f"saved.{rank}").exists(), f"rank {rank} could not save: {text[-800:]}")
    # Slurm kills a batch script in Python, which has no word then; its own stands there.
    named = "SIGTERM" in text or "CANCELLED" in text
    trial.must(named, f"neither SIGTERM nor Slurm is named: {text[-800:]}")
    left, _ = processes.wait_gone(str(work), 2 * SLOW, name="CHAOS_PLACE_OF_JOB")
    trial.must(not left, f"alive: {processes.named(left)}")


def _submit(work: Path, script: str, *options: str) -> str:
    """Submit a script that takes two whole nodes; gives the number of its job."""
    words = ("--parsable", "-N2", "--exclusive", "--no-requeue", f"--chdir={work}")
    mark = f"--export=ALL,CHAOS_PLACE_OF_JOB={work}"
    return _slurm("sbatch", *words, mark, "--output=out", *options, str(work / script)).strip()


def _ended(job: str, seconds: float) -> str:
    """Wait for the end of a job; gives its state, "" if it does not end."""

    def over() -> str:
        said = _slurm("scontrol", "show", "job", "-o", job)
        return next((state for state in OVER if f"JobState={state} " in said), "")

    return until(over, seconds)


def _slurm(*argv: str) -> str:
    """Run a command of Slurm on its user's machine; gives what it says."""
    here = machines.hosts()[0].command(*argv)
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(here, capture_output=True, text=True, check=False, timeout=30)
        return done.stdout
    return ""


def _text(work: Path) -> str:
    out = work / "out"
    return out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""


ROW = Row(
    fault="a job of Slurm on two nodes with two ranks each, started in one of three ways, is "
    "cancelled (`scancel`), has its steps signalled, is preempted, or reaches its time limit; "
    f"ranks save for {SAVES:g} s",
    holds="every rank has the time to save; SIGTERM, or that Slurm cancelled it, is named; nothing "
    "left on any node",
    full=20 * len(ENDS),
    strike=strike,
    limit=180 * SLOW,
    lacks=machines.ROW["slurm"].lacks,
    around=machines.ROW["slurm"].around,
)
