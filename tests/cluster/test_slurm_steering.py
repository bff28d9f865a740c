"""A job as one run: seen and stopped by its number, from a machine that does not run it."""

import os
import shutil
import sys

import pytest

from conftest import until
from support import write

PROCESSION = (sys.executable, "-m", "procession")
WAITS = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").close()
while True: signal.pause()
"""


@pytest.fixture
def job(slurm, tmp_path, monkeypatch):
    """Send a job; gives its number when its ranks are there. This is then another machine."""
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    there = tmp_path / "there"
    there.mkdir(mode=0o700)
    script = write(tmp_path / "work.py", WAITS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(there))
    words = ("run", "--engine", "slurm", "--nnodes", "2", "-n", "2", script, ranks)
    told = slurm.run(*PROCESSION, *words, check=False).stderr  # the line that sends a job
    line = told.partition("to send a job: ")[2].removesuffix("\n")
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{slurm.env['PATH']}"
    slurm.run("sh", "-c", line, env={"PATH": path})
    until(lambda: len(os.listdir(ranks)) == 4, "4 ranks", 40)
    # The runtime directories of two machines differ; only a step of the job comes into the other.
    real = shutil.which("srun", path=slurm.env["PATH"])
    own = tmp_path / "bin"
    own.mkdir()
    wrapper = write(own / "srun", f'#!/bin/sh\nXDG_RUNTIME_DIR={there} exec {real} "$@"\n')
    wrapper.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(here), "PATH": f"{own}{os.pathsep}{slurm.env['PATH']}"}
    number = slurm.run("squeue", "-h", "-o", "%i").stdout.split()[0]

    def ask(command):
        return slurm.run(*PROCESSION, command, number, env=env, check=False)

    return number, ask


def test_it_is_reported_and_stopped_as_a_whole(slurm, job):
    number, ask = job
    report = ask("report")
    assert ": 4 RUNNING, " in report.stdout, report.stderr
    assert f"in job {number} of Slurm" in report.stdout
    # On a busy machine the stacks of some ranks may not come in time, which is said.
    until(lambda: "4 ranks [0-3]" in ask("stacks").stdout, "the stacks of all ranks", 30)
    stopped = ask("stop")
    assert "was stopped" in stopped.stdout, stopped.stderr
    assert stopped.returncode == 0
    until(lambda: slurm.job(number)["JobState"] != "RUNNING", "the end of the job", 30)
    again = ask("stop")
    assert again.returncode == 2
    assert f"job {number} of Slurm is" in again.stderr
