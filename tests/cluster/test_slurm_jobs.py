"""`procession run --engine slurm` on real clusters: whole jobs, and what may befall them."""

import os
import signal
import sys

import pytest

from cluster.enginework import process_above
from conftest import until
from support import write

PROCESSION = (sys.executable, "-m", "procession")
SALLOC = ("salloc", "--quiet", "--no-kill")


def test_ranks_are_numbered_over_nodes_and_have_devices(slurm, tmp_path):
    code = """
        import os
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "CUDA_VISIBLE_DEVICES")
        found = [*map(os.environ.get, names), str(len(os.sched_getaffinity(0)))]
        os.write(1, f"{' '.join(found)}\\n".encode())
    """
    asked = ("-N2", "--ntasks-per-node=2", "--gpus-per-task=1", "--cpus-per-task=1")
    words = ("run", "--engine", "slurm", "--prefix", "", write(tmp_path / "see.py", code))
    done = slurm.run(*SALLOC, *asked, *PROCESSION, *words)
    lines = sorted(line for line in done.stdout.splitlines() if line[0].isdigit())
    assert lines == ["0 4 0 0 0 1", "1 4 0 0 1 1", "2 4 0 1 0 1", "3 4 0 1 1 1"]


@pytest.mark.parametrize("count", [(), ("--nnodes", 3)])
def test_under_srun_the_tasks_are_one_job(slurm, tmp_path, count):
    script = write(tmp_path / "see.py", "import os\nprint('rank ' + os.environ['RANK'])\n")
    line = ["srun", "-N3", "--ntasks-per-node=1", *PROCESSION, "run", *count, "-n", 2]
    said = slurm.run(*line, script).stdout
    assert sorted(said.splitlines()) == [f"[{n // 2}:{n}] rank {n}" for n in range(6)]


def test_under_srun_a_failure_ends_all(slurm, tmp_path):
    code = "import os, sys, time\nif os.environ['RANK'] == '5': sys.exit(3)\ntime.sleep(60)\n"
    script = write(tmp_path / "fail.py", code)
    line = ["srun", "-N3", "--ntasks-per-node=1", *PROCESSION, "run", "-n", 2, script]
    done = slurm.run(*line, check=False)
    assert done.returncode == 3, done.stderr
    assert "rank 5 of 6" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--dry-run",), 0, "see.py"),
        (("--max-restarts", "many"), 2, "--max-restarts"),
    ],
)
def test_under_srun_no_task_waits_for_a_job_that_does_not_come(slurm, tmp_path, words, code, said):
    script = write(tmp_path / "see.py", "print('here')\n")
    line = ["srun", "-N3", "--ntasks-per-node=1", *PROCESSION, "run", *words, script]
    done = slurm.run(*line, check=False, timeout=20)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "\nhere" not in done.stdout


def test_several_tasks_of_srun_on_a_node_are_refused_at_once(slurm, tmp_path):
    line = ["srun", "-N2", "--ntasks-per-node=2", *PROCESSION, "run", "--engine", "slurm", "true"]
    done = slurm.run(*line, check=False)
    assert done.returncode == 2
    assert done.stderr.count("this program is one of 4 tasks of srun") == 4


# Each rank tells that it is there, asks whether it is to stop, and then says so.
ASKS = """
import os, procession, sys, time
rank, node = os.environ["RANK"], os.environ["SLURMD_NODENAME"]
open(f"{sys.argv[1]}/0.{rank}.{node}.{os.getpid()}", "w").close()
while not procession.stopping():
    time.sleep(0.02)
print("saved", flush=True)
"""


def test_a_notice_to_a_node_process_is_one_to_all(slurm, tmp_path):
    """As Slurm gives it before the time limit, where it signals tasks only."""
    here, log = tmp_path / "ranks", tmp_path / "log"
    here.mkdir()
    words = ("run", "--engine", "slurm", "-n", 2, "--preempt", "SIGUSR1:30")
    line = [*SALLOC, "-N2", *PROCESSION, *words, write(tmp_path / "work.py", ASKS), here]
    with open(log, "wb") as out, slurm.popen(*line, stdout=out, stderr=out) as job:
        until(lambda: len(os.listdir(here)) == 4, f"4 ranks: {log.read_text()}", 30)
        for process in {process_above(int(name.rpartition(".")[2])) for name in os.listdir(here)}:
            os.kill(process, signal.SIGUSR1)
        assert job.wait(60) == 128 + signal.SIGUSR1, log.read_text()
    assert log.read_text().count("saved") == 4, log.read_text()
    assert log.read_text().count("s for ranks to end by themselves") == 1, log.read_text()


def test_a_notice_to_the_batch_script(slurm, tmp_path):
    """`sbatch --signal=B:USR1@...`, with a command that is the script's own process."""
    here = tmp_path / "ranks"
    here.mkdir()
    work = write(tmp_path / "work.py", ASKS)
    line = f"{' '.join(PROCESSION)} run --engine slurm -n 2 --preempt SIGUSR1:30 {work} {here}"
    script = write(tmp_path / "job.sh", f"#!/bin/sh\nexec {line}\n")
    out = tmp_path / "out"
    sent = slurm.run("sbatch", "--parsable", "-N2", "--no-kill", f"--output={out}", script)
    job = sent.stdout.strip()
    until(lambda: len(os.listdir(here)) == 4, "4 ranks", 20)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    slurm.wait_job(job, "FAILED", "COMPLETED")
    assert out.read_text().count("saved") == 4, out.read_text()
    assert slurm.job(job)["ExitCode"] == f"{128 + signal.SIGUSR1}:0"
