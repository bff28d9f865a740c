"""`procession run --engine slurm` on real clusters: whole jobs, and what may befall them."""

import os
import signal
import sys

import pytest

from conftest import until
from support import gone, write

PROCESSION = (sys.executable, "-m", "procession")
SALLOC = ("salloc", "--quiet", "--no-kill")
# Each rank tells its pid and its node, then waits for a file, or SIGTERM, which it obeys.
WAITS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
rank, node = os.environ["RANK"], os.environ["SLURMD_NODENAME"]
open(f"{sys.argv[1]}/{attempt}.{rank}.{node}.{os.getpid()}", "w").close()
while not os.path.exists(f"{sys.argv[1]}/end"):
    time.sleep(0.02)
"""


class Run:
    """A job in an allocation, and its ranks as they tell of themselves."""

    def __init__(self, cluster, path, options, *words, salloc=SALLOC, code=WAITS):
        self.cluster = cluster
        self.here = path / "ranks"
        self.here.mkdir()
        self.log = path / "log"
        script = write(path / "work.py", code)
        line = [*salloc, *options, *PROCESSION, "run", "--engine", "slurm", *words]
        with open(self.log, "wb") as log:
            self.process = cluster.popen(
                *line, script, self.here, stdout=log, stderr=log, start_new_session=True
            )

    def ranks(self, attempt=0):
        """Give (node, pid) of each rank of an attempt."""
        told = [n.split(".") for n in os.listdir(self.here) if n[0].isdigit()]
        return {int(r): (node, int(pid)) for a, r, node, pid in told if int(a) == attempt}

    def up(self, count, attempt=0, patience=20):
        def look():
            assert self.process.poll() is None, self.said()
            return len(self.ranks(attempt)) == count and self.ranks(attempt)

        return until(look, f"{count} ranks", patience)

    def job(self):
        return self.cluster.run("squeue", "-h", "-o", "%i").stdout.split()[0]

    def said(self):
        return self.log.read_text()

    def end(self, timeout=30):
        return self.process.wait(timeout)

    def finish(self):
        (self.here / "end").touch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def mark(monkeypatch):
    return f"PROCESSION_TEST={os.environ['PROCESSION_TEST']}"


def test_ranks_are_numbered_over_nodes_and_have_devices(slurm, tmp_path):
    code = """
        import os
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "CUDA_VISIBLE_DEVICES")
        found = [*map(os.environ.get, names), str(len(os.sched_getaffinity(0)))]
        os.write(1, f"{' '.join(found)}\\n".encode())
    """
    asked = ("-N2", "--ntasks-per-node=2", "--gpus-per-task=1", "--cpus-per-task=1")
    with Run(slurm, tmp_path, asked, "--prefix", "", code=code) as it:
        assert it.end() == 0, it.said()
        lines = sorted(line for line in it.said().splitlines() if line[0].isdigit())
    assert lines == ["0 4 0 0 0 1", "1 4 0 0 1 1", "2 4 0 1 0 1", "3 4 0 1 1 1"]


def test_a_cancelled_job_lets_ranks_end_in_order(slurm, tmp_path):
    """Slurm signals every process of the step: forkservers endure it, ranks obey it."""
    with Run(slurm, tmp_path, ("-N2",), "-n", 2, "--shutdown-timeout", 3) as it:
        pids = [pid for _, pid in it.up(4).values()]
        slurm.run("scancel", "--signal=TERM", it.job())
        it.end()
        for rank in ("[0:0]", "[0:1]", "[1:2]", "[1:3]"):
            assert f"{rank} saved" in it.said()
        gone(pids)


def test_the_end_of_the_allocation_ends_the_job(slurm, tmp_path):
    with Run(slurm, tmp_path, ("-N2",), "-n", 2, "--shutdown-timeout", 3) as it:
        pids = [pid for _, pid in it.up(4).values()]
        slurm.run("scancel", it.job())
        assert it.end() != 0
        gone(pids)


def agent_above(pid):
    """Give the agent whose rank this process is."""
    while True:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            if b"procession.engines.agent" in f.read():
                return pid
        with open(f"/proc/{pid}/stat", "rb") as f:
            pid = int(f.read().rpartition(b")")[2].split()[1])
        assert pid > 1


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


def test_a_notice_to_an_agent_is_one_to_all(slurm, tmp_path):
    """As Slurm gives it before the time limit, where it signals tasks only."""
    words = ("-n", 2, "--preempt", "SIGUSR1:30")
    with Run(slurm, tmp_path, ("-N2",), *words, code=ASKS) as it:
        ranks = it.up(4)
        for agent in {agent_above(pid) for _, pid in ranks.values()}:
            os.kill(agent, signal.SIGUSR1)
        assert it.end() == 128 + signal.SIGUSR1, it.said()
        assert it.said().count("saved") == 4, it.said()
        assert it.said().count("s for ranks to end by themselves") == 1, it.said()


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
