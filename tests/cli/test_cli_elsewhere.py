"""Runs on other machines of a Slurm cluster, by the number of their job; Slurm is played."""

import os

import pytest

from support import run_procession, write

RUNS = "JobId=77 JobName=x JobState=RUNNING NodeList=n[3-4] BatchHost=n3"


@pytest.fixture
def ask(tmp_path):
    """Give what runs a command of ours on a machine where Slurm says `facts` of any job."""

    def ask(*words, facts=RUNS, env=None):
        write(tmp_path / "bin" / "scontrol", f"#!/bin/sh\necho '{facts}'\n").chmod(0o755)
        write(tmp_path / "bin" / "srun", '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n').chmod(0o755)
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return run_procession(*words, env={**os.environ, **(env or {}), "PATH": path}, timeout=60)

    return ask


def test_the_command_is_run_where_the_job_s_script_is(ask):
    done = ask("stop", "77", "--grace", "3")
    words = done.stdout.splitlines()
    assert done.returncode == 7
    assert {"--jobid=77", "--overlap", "--nodelist=n3", "--ntasks=1"} <= set(words)
    assert words[-5:] == ["procession.cli:command", "stop", "77", "--grace", "3"]


def test_there_it_goes_no_further(ask):
    done = ask("stop", "77", env={"PROCESSION_THERE": "1"})
    assert done.returncode == 2
    assert "there is no run '77'" in done.stderr


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("JobId=77 JobState=PENDING", "job 77 of Slurm is pending: nothing runs there"),
        ("JobId=77 JobState=COMPLETED", "job 77 of Slurm is completed"),
    ],
)
def test_what_cannot_be_reached_is_said_in_a_line(ask, facts, words):
    done = ask("stop", "77", facts=facts)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
