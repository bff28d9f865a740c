"""A command that srun starts several times reads its place from Slurm's variables."""

import json
import shutil
import subprocess
import sys

import pytest

from support import write

PROCESSION = (sys.executable, "-m", "procession", "run")
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
SEE = f"""
import json, os, sys
seen = [int(os.environ[name]) for name in {NAMES}]
where = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], os.environ["SLURMD_NODENAME"]
sys.stdout.write(json.dumps([*seen, *where]) + "\\n")
"""
REDUCE = """
import sys, torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: {int(total.item())}\\n")
dist.destroy_process_group()
"""

COUNT = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, one = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: %d\\n", rank, size, sum);
    return MPI_Finalize();
}
"""


def seen(done):
    """Give what the ranks have seen, in their order, and where they meet."""
    found = sorted(json.loads(line) for line in done.stdout.splitlines())
    (place,) = {tuple(each[6:8]) for each in found}
    return [tuple(each[:6]) for each in found], place, [each[8] for each in found]


@pytest.fixture
def see(tmp_path):
    return write(tmp_path / "see.py", SEE)


@pytest.mark.parametrize(
    ("asked", "words", "ranks"),
    [
        (("--ntasks-per-node=2",), (), [(r, r % 2, 4, 2, r // 2, 2) for r in range(4)]),
        # Slurm fills nodes by default.
        (("-n4",), (), [*((r, r, 4, 3, 0, 2) for r in range(3)), (3, 0, 4, 1, 1, 2)]),
        (
            ("--ntasks-per-node=2", "--distribution=cyclic"),
            (),
            [(r, r // 2, 4, 2, r % 2, 2) for r in range(4)],
        ),
        (
            ("--ntasks-per-node=1",),
            ("--engine", "none", "--prefix", "", "-n", "2"),
            [(r, r % 2, 4, 2, r // 2, 2) for r in range(4)],
        ),
    ],
)
def test_tasks_on_two_nodes(slurm, see, asked, words, ranks):
    found, (address, _), nodes = seen(slurm.run("srun", "-N2", *asked, *PROCESSION, *words, see))
    assert found == ranks
    assert nodes[0] == address


def test_a_task_alone_and_a_batch_script_are_no_rank(slurm, see, tmp_path):
    ranks, (address, _), _ = seen(slurm.run("srun", "-n1", *PROCESSION, see))
    assert (ranks, address) == ([(0, 0, 1, 1, 0, 1)], "127.0.0.1")
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{' '.join(PROCESSION)} {see} > {tmp_path}/out 2>&1\n")
    slurm.run("sbatch", "--wait", "-N2", "-n4", "--output=/dev/null", script)
    (line,) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(line)[:6] == [0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("kind", "compiler", "step"),
    [
        ("pmi2", "mpicc.mpich", ("-N2", "--ntasks-per-node=2")),
        # Nodes of this cluster are one machine, where servers of PMIx take each other's files.
        ("pmix", "mpicc.openmpi", ("-N1", "-n4", "--ntasks-per-node=4")),
    ],
)
def test_an_mpi_program_below_srun(slurm, tmp_path, kind, compiler, step):
    if not shutil.which(compiler) or kind not in slurm.run("srun", "--mpi=list").stdout:
        pytest.skip(f"there is no {compiler}, or srun has no --mpi={kind}")
    source, program = write(tmp_path / "count.c", COUNT), tmp_path / "count"
    subprocess.run([compiler, source, "-o", program], check=True, timeout=300)
    done = slurm.run("srun", f"--mpi={kind}", *step, *PROCESSION, program, timeout=300)
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 4: 4" for r in range(4)]


def test_a_failure_ends_the_other_tasks_with_kill_on_bad_exit(slurm, tmp_path):
    source = """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit(7)
        while not os.path.exists("never"):
            time.sleep(0.01)
    """
    words = ("srun", "--kill-on-bad-exit", "-N2", "--ntasks-per-node=2", *PROCESSION)
    done = slurm.run(*words, write(tmp_path / "fail.py", source), check=False, timeout=100)
    assert "fail.py failed on node 0 of 2: rank 1 of 4 (pid " in done.stderr
    assert done.returncode


@pytest.mark.torch
def test_ranks_on_two_machines_reduce(networked, tmp_path):
    pytest.importorskip("torch")
    script = write(tmp_path / "reduce.py", REDUCE)
    # The names of these nodes stand in no hosts file, as they do on a cluster.
    where = ("env", "MASTER_ADDR=10.213.77.2", "GLOO_SOCKET_IFNAME=uplink")
    words = ("srun", "--nodelist=n1,n2", "-N2", "-n4", *where, *PROCESSION, script)
    done = networked.run(*words, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 4: 1111" for r in range(4)]
