"""What mpirun, mpiexec and srun tell about a process that they have started."""

import pytest

from seams.cli import read_started
from seams.values import SpecError


def mpirun(rank, size, local, local_size, **more):
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "PMIX_NAMESPACE": "2123890689",
        **more,
    }


def mpiexec(rank, size, local, local_size):
    values = map(str, (rank, size, local, local_size))
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return dict(zip(names, values, strict=True))


def srun(rank, tasks, local, node, nodes="n[1-2]", per_node="2(x2)", **more):
    return {
        "SLURM_JOB_ID": "811",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        **more,
    }


def place(found):
    return found.rank, found.size, found.local, found.local_size, found.machine, found.machines


@pytest.mark.parametrize(
    ("env", "starter", "expected", "per_rank"),
    [
        (mpirun(3, 4, 3, 4), "mpirun", (3, 4, 3, 4, 0, 1), True),
        (mpirun(5, 8, 1, 4), "mpirun", (5, 8, 1, 4, 1, 2), True),
        (mpirun(2, 3, 0, 1), "mpirun", (2, 3, 0, 1, 2, 3), False),
        (mpiexec(1, 2, 1, 2), "mpiexec", (1, 2, 1, 2, 0, 1), True),
        (mpiexec(1, 2, 0, 1), "mpiexec", (1, 2, 0, 1, 1, 2), False),
        (srun(3, 4, 1, 1), "srun", (3, 4, 1, 2, 1, 2), True),
        (srun(1, 2, 0, 1, per_node="1(x2)"), "srun", (1, 2, 0, 1, 1, 2), False),
        # One task on a machine, and two on another: also the one has but one rank.
        (srun(2, 3, 0, 1, per_node="2,1"), "srun", (2, 3, 0, 1, 1, 2), True),
        # Ranks that are dealt to machines in turn, which Slurm tells.
        (srun(2, 4, 1, 0), "srun", (2, 4, 1, 2, 0, 2), True),
    ],
)
def test_places(env, starter, expected, per_rank):
    found = read_started(env)
    assert (found.starter, found.per_rank) == (starter, per_rank)
    assert place(found) == expected


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"HOME": "/root", "JOB_COMPLETION_INDEX": "1"},
        mpirun(0, 1, 0, 1),
        mpiexec(0, 1, 0, 1),
        # A batch script, the shell of salloc, and srun --pty bash.
        {"SLURM_JOB_ID": "811", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_NODEID": "0"},
        srun(0, 4, 0, 0, SLURM_STEP_ID="4294967291"),
        srun(0, 4, 0, 0, SLURM_STEP_ID="4294967290"),
        srun(0, 1, 0, 0, per_node="1", nodes="n1"),
        # srun --mpi=pmi2 without a step of several tasks
        {"PMI_RANK": "0", "PMI_SIZE": "4"},
        # Within a rank: it was the group's launcher that was told.
        mpirun(3, 4, 3, 4, PROCESSION_RUN="train.py_1"),
    ],
)
def test_what_tells_of_no_place(env):
    assert read_started(env) is None


def test_mpirun_in_a_job_of_slurm_counts():
    found = read_started({**srun(0, 2, 0, 0, per_node="1(x2)"), **mpirun(3, 4, 1, 2)})
    assert (found.starter, place(found)) == ("mpirun", (3, 4, 1, 2, 1, 2))


def test_where_ranks_meet():
    ours = [read_started(srun(rank, 4, rank % 2, rank // 2)) for rank in range(4)]
    assert {found.address for found in ours} == {"n1"}
    assert {found.job for found in ours} == {"slurm_811.0"}
    (port,) = {found.port for found in ours}
    assert 20000 <= port < 32000  # where Linux's own choice begins
    assert read_started(srun(0, 4, 0, 0, SLURM_STEP_ID="1")).port != port
    assert read_started(mpirun(0, 4, 0, 4)).address == ""
    jobs = {"PMIX_NAMESPACE": "", "OMPI_MCA_ess_base_jobid": "77"}
    assert read_started(mpirun(0, 4, 0, 4, **jobs)).job == "mpirun_77"
    (port,) = {read_started(mpiexec(rank, 4, rank, 4)).port for rank in range(4)}
    assert 20000 <= port < 32000  # by the pid of the proxy, which is the parent of all


def test_cpus_of_a_task():
    assert read_started(srun(0, 4, 0, 0, SLURM_CPUS_PER_TASK="6")).cpus == 6
    assert read_started(srun(0, 4, 0, 0)).cpus == 0


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (mpirun(4, 4, 0, 4), "contradict each other: rank 4 of 4"),
        (mpirun("x", 4, 0, 4), "OMPI_COMM_WORLD_RANK is 'x', no number"),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_RANK is missing"),
        (mpirun(1, 4, 0, 2), "has not numbered ranks machine by machine"),
        (mpirun(3, 5, 0, 2), "has not numbered ranks machine by machine"),
        (srun(0, 4, 0, 0, nodes="n[1-"), "not as Slurm writes them"),
        (srun("x", 4, 0, 0), "SLURM_PROCID must be a count"),
        (srun(0, 4, "", 0), "SLURM_LOCALID is '', no number"),
        (srun(0, 4, 0, 0, nodes="n1"), "contradict each other: SLURM_NODEID=0"),
        (srun(0, 4, 0, 2), "contradict each other: SLURM_NODEID=2"),
        (srun(0, 5, 0, 0), "SLURM_STEP_NUM_TASKS=5"),
        (srun(0, 4, 2, 0), "number 2 of 2"),
    ],
)
def test_contradictions_are_refused(env, said):
    with pytest.raises(SpecError, match="for a group of its own, write --nnodes 1") as caught:
        read_started(env)
    assert said in str(caught.value)
