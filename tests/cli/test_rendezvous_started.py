"""Launchers that srun or mpirun has started, one on each machine, are one job; without these."""

import contextlib
import os
import signal
import time

import pytest
from commandline import Watched, run
from test_cli_started import environment, slurm

from seams.system import free_port
from support import write

pytestmark = pytest.mark.timeout(300)
PATIENCE = 100  # seconds: several interpreters start on a busy machine
KEY = {"PROCESSION_JOB_KEY": "0123456789abcdef-of-this-test"}
MUNGE = """#!/bin/sh
exec base64 -w 0
"""
UNMUNGE = """#!/bin/sh
printf 'STATUS: Success (0)\\nUID: me (%s)\\n\\n' "$(id -u)"
exec base64 -d
"""
WAITS = """
import os, sys, time
print("rank", os.environ["RANK"], os.environ["GROUP_RANK"], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
if os.environ["RANK"] == sys.argv[2]:
    raise ValueError("no such batch")
"""


def step(number, count=2, **more):
    """The variables of a task of srun on a node of its own, which is an address of this machine."""
    job = os.getpid()  # so that tests that run beside each other have other ports
    return slurm(number, 0, number, f"1(x{count})", count, SLURM_JOB_ID=job, SLURM_NODEID=number,
                 SLURM_STEP_NODELIST=f"127.0.0.[1-{count}]", **more)  # fmt: skip


def launcher(variables, *words):
    return Watched("run", "--lease", 40, *words, env=environment({**KEY, **variables}))


def ended(launchers, *codes):
    assert [each.end(PATIENCE) for each in launchers] == [*codes], [each.err for each in launchers]


def test_the_tasks_of_srun_fail_as_one_job(tmp_path):
    """One report on their console, and the first one's exit code is that of the job."""
    script, go = write(tmp_path / "fail.py", WAITS), tmp_path / "go"
    with contextlib.ExitStack() as open_:
        tasks = [
            open_.enter_context(launcher(step(n, 3), "-n", 2, script, go, 5)) for n in (2, 0, 1)
        ]
        third, first, second = tasks
        for number, each in enumerate((first, second, third)):
            each.shows(*(b"[%d:%d] rank %d %d\n" % (number, n, n, number)
                         for n in (2 * number, 2 * number + 1)), patience=PATIENCE)  # fmt: skip
        go.touch()
        ended((first, second, third), 1, 0, 0)
    assert b"fail.py failed: rank 5 of 6 (pid " in first.err
    assert b", node 2) raised ValueError: no such batch" in first.err
    assert b"" == second.err == third.err.partition(b"Traceback")[0].partition(b"[2:5]")[0]


def test_srun_has_munge_vouch_for_its_tasks(tmp_path, monkeypatch):
    """With programs in its place: each link has a key of its own, and a stranger gets none."""
    script, go, bin = write(tmp_path / "well.py", WAITS), tmp_path / "go", tmp_path / "bin"
    for name, text in (("munge", MUNGE), ("unmunge", UNMUNGE)):
        os.chmod(write(bin / name, text), 0o755)
    path = {"PATH": f"{bin}:{os.environ['PATH']}", "PROCESSION_JOB_KEY": ""}
    go.touch()
    stranger = {**step(1), "PROCESSION_JOB_KEY": "", "PATH": "/nowhere"}
    with (
        launcher({**step(0), **path}, script, go, 9) as first,
        launcher(stranger, script, go, 9) as stranger,
        launcher({**step(1), **path}, script, go, 9) as second,
    ):
        ended((first, second), 0, 0)
        stranger.signal(signal.SIGTERM)
        assert stranger.end(PATIENCE) == 143
    assert (first.err, second.err) == (b"", b"")
    assert stranger.out == b""


@pytest.mark.long
def test_a_task_that_does_not_come_is_named(tmp_path):
    script = write(tmp_path / "never.py", "print('here')")
    line = ["--rdzv-conf", "timeout=6", script]
    with launcher(step(0, 3), *line) as first, launcher(step(1, 3), *line) as second:
        ended((first, second), 1, 0)
    assert b"2 of 3 machines came (of " in first.err
    assert b" within 6 s; nothing came from 127.0.0.3: is procession installed there?" in first.err
    assert b"never.py" not in second.err
    assert first.out == second.out == b""


def test_a_task_of_another_version_ends_the_wait_for_it(tmp_path):
    other = "from procession.values import version\nversion.__version__ = '0.0.7'\n"
    path = write(tmp_path / "other" / "sitecustomize.py", other)
    script = write(tmp_path / "never.py", "print('here')")
    began = time.monotonic()
    with (
        launcher(step(0), script) as first,
        launcher({**step(1), "PYTHONPATH": os.path.dirname(path)}, script) as second,
    ):
        ended((first, second), 1, 0)
    assert time.monotonic() - began < 50, "it waited for the other one"
    assert b"has procession 0.0.7, and this job " in first.err


@pytest.mark.long
def test_a_machine_that_is_lost_does_not_come_again(tmp_path):
    """Under srun, the job ends at once, although restarts are left."""
    script, go = write(tmp_path / "wait.py", WAITS), tmp_path / "go"
    line = ["--max-restarts", 3, script, go, 9]
    with launcher(step(0), *line) as first, launcher(step(1), *line) as second:
        second.shows(b"rank 1 1\n", patience=PATIENCE)
        second.signal(signal.SIGKILL)
        assert first.end(PATIENCE) == 1
    assert b"1 of 2 machines are left: srun does not start a launcher again" in first.err


def test_one_task_describes_the_job(tmp_path):
    line = ["--dry-run", write(tmp_path / "see.py", "print('here')")]
    with launcher(step(0), *line) as first, launcher(step(1), *line) as second:
        ended((first, second), 0, 0)
    assert b"see.py" in first.out
    assert second.out == second.err == b""


def mpi(number, count=2):
    return {
        "OMPI_COMM_WORLD_RANK": number, "OMPI_COMM_WORLD_SIZE": count,
        "OMPI_COMM_WORLD_LOCAL_RANK": 0, "OMPI_COMM_WORLD_LOCAL_SIZE": 1,
    }  # fmt: skip


@pytest.mark.parametrize("started", [step, mpi])
def test_launchers_with_an_address_are_one_job(tmp_path, started):
    """Those of mpirun do not know where the first machine is: it has to be said."""
    script, go = write(tmp_path / "fail.py", WAITS), tmp_path / "go"
    port = free_port()
    line = ["--master-addr", "127.0.0.1", "--master-port", port, "-n", 2, script, go, 2]
    go.touch()
    with launcher(started(1), *line) as second, launcher(started(0), *line) as first:
        ended((first, second), 1, 0)
    assert b"fail.py failed: rank 2 of 4 (pid " in first.err
    assert b"failed" not in second.err


def test_tasks_without_a_secret_say_once_who_may_join(tmp_path):
    script, go = write(tmp_path / "well.py", WAITS), tmp_path / "go"
    go.touch()
    none = {"PROCESSION_JOB_KEY": "", "MUNGE_SOCKET": str(tmp_path), "PATH": "/nowhere"}
    with (
        launcher({**step(1), **none}, script, go, 9) as second,
        launcher({**step(0), **none}, script, go, 9) as first,
    ):
        ended((first, second), 0, 0)
    assert first.err.count(b"no secret is set: everyone who reaches 127.0.0.1:") == 1
    assert second.err == b""


def test_what_all_of_them_refuse_is_refused_at_once():
    env = environment({**KEY, **step(0)})
    done = run("--logs-specs", "nosuch", "/bin/true", env=env)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "there is no entry point 'nosuch' in torchrun.logs_specs" in done.stderr
