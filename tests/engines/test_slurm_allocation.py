"""What is read of Slurm's variables; the same names that `scontrol show hostnames` gives."""

import pytest

from seams.jobs import EngineError, Share, choose
from seams.slurm import Allocation, Task, expand, read_allocation, read_task
from seams.system import slurm_ids
from seams.values import Placement, make_spec

BATCH = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "1(x3)",
         "SLURM_PROCID": "0"}  # fmt: skip
STEP = {**BATCH, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "2",
        "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2,1"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login", "login"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[08-11,20],m7", "n08 n09 n10 n11 n20 m7"),
        ("a,b[1,3]", "a b1 b3"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("n[1-2]-ib,gpu-a[5]", "n1-ib n2-ib gpu-a5"),
    ],
)
def test_lists_of_nodes(text, names):
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize("text", ["", "n[1-", "n[a-b]", "n[]", "a,,b", "n[1-2"])
def test_lists_that_are_none(text):
    with pytest.raises(EngineError, match="list of nodes cannot be read"):
        expand(text)


def test_a_batch_script_has_an_allocation_and_no_task():
    assert read_allocation(BATCH) == Allocation("7", ("n1", "n2", "n3"))
    assert read_task(BATCH) is None


@pytest.mark.parametrize(
    ("said", "tasks"),
    [
        ({}, None),
        ({"SLURM_NTASKS_PER_NODE": "4"}, 4),
        ({"SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "2(x3)"}, 2),
        ({"SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "2(x2),1"}, None),
    ],
)
def test_tasks_for_each_node(said, tasks):
    assert read_allocation({**BATCH, **said}).tasks_per_node == tasks


def test_what_a_task_has():
    said = {
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_GPUS_PER_TASK": "a100:1",
        "SLURM_NTASKS_PER_NODE": "4",
    }
    found = read_allocation({**BATCH, **said})
    assert (found.cpus_per_task, found.gpus_per_task, found.gpus_per_node) == (2, 1, 4)
    uneven = read_allocation({**BATCH, "SLURM_GPUS_PER_TASK": "1"})
    with pytest.raises(EngineError, match="--ntasks-per-node"):
        _ = uneven.gpus_per_node
    with pytest.raises(EngineError, match="SLURM_CPUS_PER_TASK must be a count"):
        read_allocation({**BATCH, "SLURM_CPUS_PER_TASK": "two"})


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, Placement(cpus_per_rank=1)),
        (Placement(memory_limit="1G"), Placement(cpus_per_rank=1, memory_limit="1G")),
        (Placement(numa="node"), Placement(numa="node")),
    ],
)
def test_ranks_have_the_cpus_of_a_task_unless_others_are_chosen(asked, given, monkeypatch):
    for name, text in {**BATCH, "SLURM_CPUS_PER_TASK": "1"}.items():
        monkeypatch.setenv(name, text)
    chosen = choose("slurm", Share(make_spec(("true",), nproc=1, placement=asked)), None)
    assert chosen.share.spec.placement == given


def test_a_task_of_srun():
    assert read_task(STEP) == Task("7", "0", 2, 3, ("n1", "n2"), (2, 1))


def test_the_interactive_step_of_salloc_is_no_task_of_srun():
    assert read_task({**STEP, "SLURM_STEP_ID": str(0xFFFFFFFA)}) is None


def test_a_heterogeneous_job_is_refused_and_a_step_in_one_component_is_not():
    env = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_HET_SIZE": "2"}
    with pytest.raises(EngineError, match="job 7 is heterogeneous: it has 2 components"):
        read_allocation(env)
    assert read_allocation({**env, "SLURM_STEP_NODELIST": "n1"}).nodes == ("n1",)
    assert read_allocation({**env, "SLURM_HET_SIZE": "1"}).nodes == ("n1",)


def test_how_slurm_calls_a_job():
    assert slurm_ids({}) == {}
    env = {"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "11", "SLURM_ARRAY_TASK_ID": "3"}
    assert slurm_ids(env) == {
        "slurm_job": "12", "slurm_array_job": "11", "slurm_array_task": "3",
    }  # fmt: skip
