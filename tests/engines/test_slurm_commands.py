"""Slurm's command lines, and what srun says."""

import os
import subprocess
import sys

import pytest

from seams.jobs import EngineError
from seams.slurm import (
    Needs,
    batch_command,
    batch_script,
    read_ends,
    read_facts,
    read_line,
    read_lost,
    step_command,
    step_environment,
)
from support import write


def test_a_step_has_one_task_on_each_node():
    words = step_command(["agent"], job="7", nodes=["n1", "n2"], name="x")
    assert words[0] == "srun"
    assert {"--jobid=7", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=n1,n2",
            "--no-kill", "--kill-on-bad-exit=0", "--overlap"} <= {*words}  # fmt: skip
    assert words[-1] == "agent"
    assert not any("gpus" in w for w in words)
    words = step_command(["agent"], job="7", nodes=["n1"], name="x", gpus=4)
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


def test_a_batch_script_is_the_command():
    script, hidden = batch_script(["run", "it's", "$HOME"])
    assert script == "#!/bin/sh\nexec run 'it'\"'\"'s' '$HOME'\n"
    assert hidden == {}


def test_a_batch_script_has_no_secrets_and_its_command_no_other_variables(tmp_path):
    see = "import os, sys; print(sys.argv[1:], [n for n in os.environ if 'WORD' in n])"
    words = ["--api-key", "it's $X1", "--auth=Bearer", "X1", "url=redis://:X1@h", "-x", "A=b c"]
    script, hidden = batch_script([sys.executable, "-c", see, *words])
    assert "X1" not in script
    path = write(tmp_path / "script", script)
    done = subprocess.run(
        ["sh", path], env={**os.environ, **hidden}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{words} []\n"
    done = subprocess.run(["sh", path], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "--export" in done.stderr


def test_the_line_that_sends_a_script():
    words = batch_command(
        name="x", nodes=2, time="1:00:00", arguments=["--signal=B:USR1@60", "--qos=q"]
    )
    assert words[:5] == ["sbatch", "--parsable", "--job-name=x", "--no-kill", "--no-requeue"]
    assert words[5:] == ["--nodes=2", "--time=1:00:00", "--signal=B:USR1@60", "--qos=q"]


def test_what_ranks_need_is_asked_for():
    def asked(*arguments, **needs):
        return batch_command(name="x", needs=Needs(8, **needs), arguments=arguments)[5:]

    assert asked() == ["--ntasks-per-node=8"]
    whole = ["--ntasks-per-node=8", "--cpus-per-task=4", "--gpus-per-node=8"]
    assert asked(cpus=4, gpus=True) == whole
    for word, mine in (("--ntasks=16", 0), ("-n16", 0), ("-c2", 1), ("--gres=gpu:4", 2)):
        assert asked(word, cpus=4, gpus=True) == [*whole[:mine], *whole[mine + 1 :], word]


@pytest.mark.parametrize("word", ["--array=1-3", "--wrap=x", "script.sh", "-W"])
def test_arguments_that_make_no_sense_are_refused(word):
    with pytest.raises(EngineError, match=word):
        batch_command(name="x", arguments=[word])


@pytest.mark.parametrize("word", ["--wait-all-nodes=1", "--wait-for-node"])
def test_options_that_only_begin_like_these_are_taken(word):
    assert batch_command(name="x", arguments=[word])[-1] == word


def test_facts_of_a_job_whose_paths_have_spaces():
    said = "JobId=7 JobName=a b JobState=FAILED ExitCode=5:0 StdOut=/a b/c d.out Power=\n"
    facts = read_facts(said)
    assert (facts["JobState"], facts["ExitCode"]) == ("FAILED", "5:0")
    assert (facts["StdOut"], facts["JobName"], facts["Power"]) == ("/a b/c d.out", "a b", "")
