"""Jobs of Slurm on two nodes, which it cancels, signals, ends at their time limit, or preempts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from chaos import processes
from chaos.processes import until
from chaos.programs import saving
from chaos.row import SLOW, Row, Trial
from chaos.rows import of_tests

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
        if not _there(trial, work):
            return
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


def _there(trial: Trial, work: Path) -> bool:
    """Wait for all ranks; tells whether they came."""
    there = until(lambda: len([*work.glob("there.*")]) == RANKS, 30 * SLOW)
    trial.must(there, f"the job does not start: {_text(work)[-800:]}")
    return there


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
    found: list[str] = []

    def over() -> bool:
        said = _slurm("scontrol", "show", "job", "-o", job)
        found[:] = [state for state in OVER if f"JobState={state} " in said]
        return bool(found)

    return found[0] if until(over, seconds) else ""


def _slurm(*argv: str) -> str:
    """Run a command of Slurm; gives what it says."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
        return done.stdout
    return ""


def _text(work: Path) -> str:
    out = work / "out"
    return out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""


def lacks() -> str:
    """Tell what this machine lacks for one, "" for nothing."""
    try:
        clusters = of_tests("cluster.slurmcluster")
    except ImportError as e:
        return f"the tests' extra is not installed: {e}"
    missing = clusters.missing_programs()
    return f"no {', '.join(missing)} (Debian packages slurm-wlm and munge)" if missing else ""


@contextlib.contextmanager
def two_nodes() -> Iterator[None]:
    """Start a cluster of two nodes, and let what is started in the meantime find it."""
    cluster = of_tests("cluster.slurmcluster").SlurmCluster(2, prefix="chaos-")
    before = dict(os.environ)
    try:
        cluster.start()
        os.environ.update(cluster.env)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        cluster.stop()


ROW = Row(
    fault="a job of Slurm on two nodes with two ranks each, started in one of three ways, is "
    "cancelled (`scancel`), has its steps signalled, is preempted, or reaches its time limit; "
    f"ranks save for {SAVES:g} s",
    holds="every rank has the time to save; SIGTERM, or that Slurm cancelled it, is named; nothing "
    "left on any node",
    full=20 * len(ENDS),
    strike=strike,
    limit=180 * SLOW,
    lacks=lacks,
    around=two_nodes,
)
