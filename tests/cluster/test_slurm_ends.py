"""How Slurm ends a job, and that ranks have the whole of their time then, however it does it.

With PROCESSION_CLUSTER_TABLE=FILE, what was measured is appended to that file; see test_same_work.
"""

import sys
import time

import pytest

from cluster.test_same_work import noted
from conftest import until
from support import write

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
SAVING = 3.0  # seconds that a rank takes to save; KillWait is 5 s
# Each rank writes when it got its first SIGTERM, goes on for some seconds, then writes "saved".
SAVES = """
import os, signal, sys, time
here, saving, rank = sys.argv[1], float(sys.argv[2]), os.environ["RANK"]
def say(word):
    with open(f"{here}/{word}.{rank}", "x") as f:
        f.write(str(time.time()))
got = []
signal.signal(signal.SIGTERM, lambda n, _: got.append(n))
say("up")
while not got:
    time.sleep(0.01)
say("told")
ends = time.monotonic() + saving
while time.monotonic() < ends:
    time.sleep(0.01)
say("saved")
"""
RUN = f"{sys.executable} -m procession run"
PYTHON = """
import sys
import procession
procession.run([sys.executable, *sys.argv[1:]], engine="slurm", nproc=2)
"""
WAYS = {
    "batch": f"exec {RUN} --engine slurm -n 2",
    "python": f"exec {sys.executable} {{here}}/drive.py",
    "srun": f"srun --ntasks-per-node=1 {RUN} -n 2",
}


class Sent:
    """A batch job on two nodes with two ranks each, which are up."""

    name = "slurm"  # for the table

    def __init__(self, slurm, path, way, *options, saving=SAVING):
        self.slurm, self.here, self.out = slurm, path / "ranks", path / "out"
        self.here.mkdir(parents=True)
        work = write(path / "work.py", SAVES)
        write(path / "drive.py", PYTHON)
        line = WAYS[way].format(here=path)
        script = write(path / "job.sh", f"#!/bin/sh\n{line} {work} {self.here} {saving}\n")
        asked = ("--parsable", "-N2", "--no-requeue", f"--output={self.out}", *options)
        self.job = slurm.run("sbatch", *asked, script).stdout.strip()
        until(lambda: len(self.when("up")) == 4, "4 ranks", 20)

    def when(self, word):
        """Give when each rank said it."""
        found = [f for f in self.here.glob(f"{word}.*") if f.stat().st_size]
        return [float(f.read_text()) for f in found]

    def saved(self, patience):
        """Wait for the end; all ranks must have had the whole of their time."""
        self.slurm.wait_job(
            self.job, "CANCELLED", "TIMEOUT", "NODE_FAIL", "FAILED", patience=patience
        )
        told, saved = self.when("told"), self.when("saved")
        assert (len(told), len(saved)) == (4, 4), self.out.read_text()
        assert max(saved) - max(told) < 2 * SAVING, "no rank waits for another one"
        return max(saved)


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def test_a_cancelled_job_has_the_whole_grace(slurm, tmp_path, way):
    sent = Sent(slurm, tmp_path, way, "--no-kill")
    began = time.time()
    slurm.run("scancel", sent.job)
    last = sent.saved(30)
    noted(sent, f"scancel, ranks save for {SAVING:g} s ({way})", "all saved", last - began)


def test_a_job_at_its_time_limit_has_it(slurm, tmp_path):
    """Slurm looks for such jobs every 30 s, and signals them twice."""
    both = [Sent(slurm, tmp_path / way, way, "--no-kill") for way in WAYS]
    for sent in both:
        slurm.run("scontrol", "update", f"JobId={sent.job}", "EndTime=now+1second")
    for way, sent in zip(WAYS, both, strict=True):
        last = sent.saved(60)
        assert slurm.job(sent.job)["JobState"] == "TIMEOUT"
        what = f"time limit, ranks save for {SAVING:g} s ({way})"
        noted(sent, what, "all saved", last - min(sent.when("told")))


def test_a_job_that_loses_a_node_has_it(slurm, tmp_path, way):
    """Without --no-kill Slurm cancels a job when it has lost a node of it."""
    sent = Sent(slurm, tmp_path, way)
    said = slurm.run("scontrol", "show", "hostnames", slurm.job(sent.job)["NodeList"]).stdout
    lost = said.split()[1]
    slurm.kill_node(lost)
    try:
        sent.saved(60)
        assert slurm.job(sent.job)["JobState"] == "NODE_FAIL"
    finally:
        slurm.start_node(lost)


def test_a_second_interrupt_of_the_command_kills(slurm, tmp_path):
    """What node processes were told counts for nothing: two signals here do."""
    sent = Sent(slurm, tmp_path, "batch", "--no-kill", saving=25)
    slurm.run("scancel", "--signal=TERM", sent.job)  # to node processes alone
    until(lambda: len(sent.when("told")) == 4, "the first signal")
    slurm.run("scancel", "--batch", "--signal=INT", sent.job)
    until(lambda: "SIGTERM" in sent.out.read_text(), "that it is said")
    slurm.run("scancel", "--batch", "--signal=INT", sent.job)
    slurm.wait_job(sent.job, "CANCELLED", "FAILED", patience=20)
    assert not sent.when("saved")
