"""What of --engine is decided before any engine is asked: what goes together, what is missing."""

import os
import shlex

import pytest

from cli.commandline import good, run
from support import write


@pytest.fixture
def script(tmp_path, monkeypatch):
    for name in [n for n in os.environ if n.startswith("SLURM")]:
        monkeypatch.delenv(name)
    return write(tmp_path / "train.py", "print('it runs')")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--engine", "lsf"],
            "--engine: there is no engine 'lsf'; there are slurm, ray, ssh; none is",
        ),
        (["--lease", "5"], "--lease needs --engine"),
        (["--max-node-losses", "1"], "--max-node-losses needs --engine"),
        (
            ["--engine", "ray", "--engine-options", "x"],
            "--engine-options is for --engine ssh",
        ),
        (["--engine", "slurm", "--hosts", "h1"], "--hosts is for --engine ssh"),
        (["--hosts", "h1"], "--hosts needs --engine"),
        (["--engine", "ssh"], "on which hosts? Say --hosts h1,h2 or --hostfile FILE"),
        (["--engine", "ssh", "--hosts", "h1:2,h2:3"], "say how many with -n"),
        (["--engine", "ssh", "--hosts", "-oProxyCommand=id"], "'-oProxyCommand=id' is no host"),
        (
            ["--engine", "ssh", "--hosts", "h1", "--nnodes", "2"],
            "2 nodes are asked for, but the number of hosts is 1",
        ),
        (["--engine", "ssh", "--hosts", "h1", "--engine-options=-f"], "-f cannot be used here"),
        (["--engine", "slurm", "--node-rank", "1"], "--node-rank is not needed"),
        (["--engine", "slurm", "--master-addr", "n1"], "--master-addr is not needed"),
        (["--engine", "slurm", "--live"], "--live is for the ranks of one machine"),
        (["--engine", "slurm", "--stdin", "0"], "cannot read this command's input"),
        (["--engine", "slurm", "--nnodes", "1:3"], "--nnodes must be a count of 1 or more"),
        (["--engine", "slurm", "--lease", "0.1"], "--lease must be seconds, 1 or more"),
        (["--engine", "slurm", "--max-node-losses", "x"], "--max-node-losses must be a count"),
    ],
)
def test_refused_in_one_line(script, words, said):
    done = run(*words, script)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert said in line


def test_outside_an_allocation_the_line_that_sends_a_job_is_told(script):
    words = ["--engine", "slurm", "--nnodes", "2", "-n", "2", "--cpus-per-rank", "1", str(script)]
    done = run(*words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    sent = shlex.split(line.partition("to send a job: ")[2])
    assert sent[:4] == ["sbatch", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=1"]
    assert sent[-2:] == ["--wrap", f"exec procession run {shlex.join(words)}"]


def test_more_nodes_than_the_allocation_has(script):
    around = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "PATH": "/nowhere"}
    done = run("--engine", "slurm", "--nnodes", "3", script, env={**os.environ, **around})
    assert done.returncode == 2
    assert "3 nodes are asked for, but the allocation (job 7) has 2" in done.stderr


def test_no_engine_at_all(script):
    done = run("--engine", "none", script)
    assert (done.returncode, done.stdout) == (0, "it runs\n")


def test_a_dry_run_knows_the_hosts(script):
    out = good("--dry-run", "--engine", "ssh", "--hosts", "h1:2,h2:2,h3:2", script)
    assert " WORLD_SIZE=6" in out
    assert " GROUP_WORLD_SIZE=3" in out
