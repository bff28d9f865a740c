"""A command that mpirun, srun or Kubernetes has started: its place, from their variables."""

import json
import os
import shutil

import pytest
from commandline import PROCESSION, command, run

from support import run_program, run_python, write

NAMES = ("RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK",
         "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")  # fmt: skip
SEE = f"""
import json, os, sys
sys.stdout.write(json.dumps({{name: os.environ.get(name) for name in {NAMES}}}) + "\\n")
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
MPIRUN = (
    "mpirun",
    "--oversubscribe",
    "--bind-to",
    "none",
    *["--allow-run-as-root"] * (not os.geteuid()),
)
OF_OTHERS = ("OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM_", "JOB_COMPLETION_INDEX", "MASTER_", "OMP_")
APART = ["--engine", "none"]  # one launcher alone
needs_mpirun = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="there is no mpirun here (Debian package openmpi-bin)"
)


@pytest.fixture
def see(tmp_path):
    return write(tmp_path / "see.py", SEE)


def environment(variables):
    """Give ours with these variables, and without those of whoever may have started the tests."""
    ours = {n: v for n, v in os.environ.items() if not n.startswith(OF_OTHERS)}
    return {**ours, **{n: str(v) for n, v in variables.items()}}


def told(*words, **variables):
    """Run a command to which these variables are told; gives it with what its ranks have seen."""
    done = run(*words, env=environment(variables))
    ranks = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines()]
    return done, sorted(ranks, key=lambda rank: int(rank["RANK"]))


def slurm(rank, local, node, per_node="2(x2)", tasks=4, **more):
    return {
        "SLURM_JOB_ID": 811, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_LOCALID": local,
        "SLURM_STEP_NUM_TASKS": tasks, "SLURM_NODEID": node, "SLURM_STEP_NUM_NODES": 2,
        "SLURM_STEP_NODELIST": "gpu[07-08]", "SLURM_STEP_TASKS_PER_NODE": per_node, **more,
    }  # fmt: skip


def test_a_task_of_slurm_is_one_rank(see):
    done, (seen,) = told(see, **slurm(3, 1, 1, SLURM_CPUS_PER_TASK=6))
    assert done.returncode == 0, done.stderr
    port = seen.pop("MASTER_PORT")
    assert seen == {
        "RANK": "3", "LOCAL_RANK": "1", "ROLE_RANK": "3", "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "gpu07", "OMP_NUM_THREADS": "6",
    }  # fmt: skip
    assert done.stderr == ""  # the machine's first rank says it
    first, (other,) = told(see, **slurm(2, 0, 1, SLURM_CPUS_PER_TASK=6))
    assert other["MASTER_PORT"] == port
    assert first.stderr == (
        "procession: this is rank 2 of 4, with 2 on this machine, by the variables of srun "
        f"(SLURM_PROCID and others); ranks meet at gpu07:{port}; for a group of its own, write "
        "--nnodes 1 [P414]\n"
    )


def test_torchruns_command_reads_torchruns_options_only(see):
    code = "from procession.cli.torchrun import main; import sys; sys.exit(main(sys.argv[1:]))"
    env = environment(slurm(3, 1, 1))
    done = run_python("-c", code, see, env=env)
    assert json.loads(done.stdout)["WORLD_SIZE"] == "1", done.stderr


def test_the_report_and_the_result_speak_of_the_job(tmp_path):
    source = "import procession, sys\nprint('here', flush=True)\nraise ValueError('no such batch')"
    script = write(tmp_path / "fail.py", source)
    done = run("--json", script, env=environment(slurm(3, 1, 1)))
    result = json.loads(done.stdout)
    assert (result["failures"], result["cause"]["local_rank"]) == ([3], 1)
    assert "fail.py failed on node 1 of 2: rank 3 of 4 (pid " in done.stderr


# -- with the real thing


def mpirun(*words):
    return run_program(*MPIRUN, *words, env=environment({}), timeout=50)


@needs_mpirun
@pytest.mark.torch
def test_four_processes_of_mpirun_reduce(tmp_path):
    script = write(tmp_path / "reduce.py", REDUCE)
    done = mpirun("-n", 4, *PROCESSION, "run", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 4: 1111" for r in range(4)]
    said = [line for line in done.stderr.splitlines() if "by the variables of mpirun" in line]
    assert len(said) == 1


@pytest.mark.long
@needs_mpirun
def test_a_rank_that_fails_under_mpirun_ends_them_all(tmp_path):
    source = """
        import os, time
        if os.environ["RANK"] == "2":
            raise ValueError("no such batch")
        time.sleep(60)
    """
    # How long after mpirun has asked the others to end it kills them: one second by default.
    patient = ("--mca", "odls_base_sigkill_timeout", 3)
    done = mpirun(*patient, "-n", 3, *PROCESSION, "run", write(tmp_path / "fail.py", source))
    assert done.returncode == 1
    assert "fail.py failed: rank 2 of 3 (pid " in done.stderr


def test_dry_run_says_where(see):
    env = environment(slurm(3, 1, 1))
    done = command("run", "--dry-run", see, env=env)
    assert "which is rank 3 of 4 of the job" in done.stdout
