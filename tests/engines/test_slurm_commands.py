"""Slurm's command lines, and what srun says."""

import pytest

from seams.slurm import (
    fact,
    read_ends,
    read_line,
    read_lost,
    step_command,
    step_environment,
)


def test_a_step_has_one_task_on_each_node():
    words = step_command(["agent"], job="7", nodes=["n1", "n2"])
    assert words[0] == "srun"
    assert {"--jobid=7", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=n1,n2",
            "--no-kill", "--kill-on-bad-exit=0", "--overlap"} <= {*words}  # fmt: skip
    assert words[-1] == "agent"
    assert not any("gpus" in w for w in words)
    words = step_command(["agent"], job="7", nodes=["n1"], gpus=4)
    assert "--gpus-per-node=4" in words


def test_what_shapes_tasks_is_taken_from_the_environment():
    env = {"SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "2",
           "SRUN_CPUS_PER_TASK": "2", "SLURM_GPUS_PER_TASK": "1", "PATH": "/bin"}  # fmt: skip
    assert step_environment(env, {"KEY": "k"}) == {
        "SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "PATH": "/bin", "KEY": "k",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "tasks", "why"),
    [
        ("srun: error: n2: task 1: Killed", (1,), "killed"),
        ("srun: error: n1: tasks 0-1: Exited with exit code 1", (0, 1), "exited with exit code 1"),
        ("srun: error: n[1-3]: tasks 0,2-3: Terminated", (0, 2, 3), "terminated"),
        ("srun: error: n3: task 2: Segmentation fault (core dumped)", (2,),
         "segmentation fault (core dumped)"),
        ("srun: error: task 1 launch failed: Invalid job credential", (1,),
         "launch failed: Invalid job credential"),
        ("srun: error: Node failure on n2", (), ""),
        ("srun: job 5 queued and waiting for resources", (), ""),
    ],
)  # fmt: skip
def test_tasks_of_which_srun_says_that_they_are_gone(line, tasks, why):
    assert read_ends(line) == (tasks, why)


def test_a_node_of_which_srun_says_that_it_is_lost():
    assert read_lost("srun: error: Node failure on n2") == "n2"
    assert read_lost("srun: error: n2: task 1: Killed") is None


def test_lines_of_tasks():
    assert read_line("03: hello: you") == (3, "hello: you")
    assert read_line(" 3:") == (3, "")
    assert read_line("srun: error: 3: no") == (None, "srun: error: 3: no")


def test_facts_of_a_job_whose_paths_have_spaces():
    said = "JobId=7 JobName=a b JobState=FAILED BatchHost=n1 StdOut=/a b/c d.out Power=\n"
    assert [fact(said, name) for name in ("JobState", "BatchHost", "Host", "Power")] == [
        "FAILED", "n1", "", "",
    ]  # fmt: skip
