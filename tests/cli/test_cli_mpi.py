"""MPI programs below MPICH's mpirun, and descriptors that ranks inherit."""

import os
import shutil
import sys

import pytest
from commandline import PROCESSION, run

from seams.system import free_port
from support import run_program, write

OF_OTHERS = ("OMPI_", "PMIX_", "PMI_", "MPI_", "SLURM_", "MASTER_")
ENV = {n: v for n, v in os.environ.items() if not n.startswith(OF_OTHERS)}
MEET = """
import os, sys
wire = os.fdopen(int(os.environ["PMI_FD"]), "rb+", buffering=0)
def ask(words):
    wire.write(words + b"\\n")
    answer = b""
    while not answer.endswith(b"\\n"):
        answer += wire.read(1)
    return answer
ask(b"cmd=init pmi_version=1 pmi_subversion=1")
met = ask(b"cmd=barrier_in").decode().strip()
ask(b"cmd=finalize")
sys.stdout.write(f"{os.environ['RANK']} {met} {os.environ['MASTER_PORT']}\\n")
"""
SHOW = "import os, sys; sys.stdout.write(os.read({fd}, 100).decode())"
needs_hydra = pytest.mark.skipif(
    not shutil.which("mpirun.mpich"), reason="there is no mpirun.mpich (Debian package mpich)"
)


def mpirun(*words, where=(), timeout=300):
    return run_program(
        "mpirun.mpich", "-n", 2, *where, *PROCESSION, "run", *words, timeout=timeout, env=ENV
    )


@needs_hydra
@pytest.mark.parametrize(
    "words",
    [[], ["--start-method", "spawn"], ["--warm"], ["--no-python", sys.executable]],
    ids=["script", "spawn", "warm", "program"],
)
def test_ranks_meet_by_the_descriptor_of_mpirun(words, tmp_path):
    done = mpirun(*words, write(tmp_path / "meet.py", MEET))
    assert done.returncode == 0, done.stderr
    first, second = sorted(line.split() for line in done.stdout.splitlines())
    assert (first[:2], second[:2]) == (["0", "cmd=barrier_out"], ["1", "cmd=barrier_out"])
    assert first[2] == second[2]


@needs_hydra
def test_a_rank_that_fails_ends_those_that_never_called_mpi_init(tmp_path):
    """They wait for a file that nobody makes; mpirun's exit code is the failed rank's."""
    source = """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit(7)
        while not os.path.exists("never"):
            time.sleep(0.01)
    """
    done = mpirun(write(tmp_path / "fail.py", source))
    assert done.returncode == 7
    assert "fail.py failed: rank 1 of 2 (pid " in done.stderr


@needs_hydra
def test_a_launcher_of_a_machine_that_cannot_begin_ends_the_others(tmp_path):
    """As on two machines: the second launcher does not wait for the first one in vain."""
    where = ["env", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1"]
    line = ["--master-addr", "127.0.0.1", "--master-port", free_port(), "--log-dir", "/proc/no"]
    done = mpirun(*line, write(tmp_path / "see.py", ""), where=where, timeout=100)
    assert done.returncode == 2
    assert done.stderr.count("cannot prepare the run") == 1


def test_a_descriptor_that_is_not_open_is_told(tmp_path):
    told = {"PMI_RANK": 0, "PMI_SIZE": 2, "MPI_LOCALRANKID": 0, "MPI_LOCALNRANKS": 2}
    env = {**ENV, **{name: str(value) for name, value in told.items()}, "PMI_FD": "999"}
    done = run(write(tmp_path / "nothing.py", ""), env=env)
    assert done.returncode == 0
    assert "PMI_FD=999 is no open descriptor" in done.stderr


@pytest.mark.parametrize("number", [3, 11])
@pytest.mark.parametrize("way", [["--start-method", "spawn"], []])
def test_a_descriptor_that_is_asked_for(number, way, tmp_path):
    script = write(tmp_path / "show.py", SHOW.format(fd=number))
    words = [*PROCESSION, "run", "--pass-fds", str(number), *way, str(script)]
    shell = ["bash", "-c", f'exec "$@" {number}<<<hello', "bash", *words]
    done = run_program(*shell, timeout=300)
    assert done.stdout == "hello\n", done.stderr
