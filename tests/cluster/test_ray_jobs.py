"""Jobs on a real Ray cluster, with real node processes."""

import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

import procession
from cluster.raycluster import OURS
from conftest import alive, command_line, marked, until
from procession import GroupFailed
from seams.ray import RayEngine
from support import PYTHON, write

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.may_leave,  # Ray leaves descriptors in the process that was connected
    pytest.mark.long,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
]


def processes():
    """Give the node processes that live on our clusters, by number."""
    found = marked(f"{OURS}={os.environ[OURS]}")
    return [p for p in found if "procession.engines.nodeprocess" in command_line(p) and alive(p)]


@pytest.fixture
def mark():
    """Give a variable of ranks; nothing with it, and no node process, may be left at the end."""
    mark = "RANKS_OF=" + uuid.uuid4().hex
    yield mark
    until(lambda: not marked(mark) and not processes(), "the end of all processes", 10)


def command(*argv):
    argv = [PYTHON, "-m", "procession", "run", "--engine", "ray", *map(str, argv)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command(ray_cluster):
    with command("--nnodes", 3, "-n", 2, "sh", "-c", "echo here is $RANK") as run:
        out, err = run.communicate(timeout=60)
    assert sorted(out.splitlines()) == [f"[{r // 2}:{r}] here is {r}" for r in range(6)]
    assert (run.returncode, err) == (0, "")


def test_ctrl_c_while_nodes_are_waited_for(ray_cluster):
    with command("--nnodes", 4, "-n", 2, "true") as run:
        try:
            assert "waiting for 4 nodes with 2 CPU each" in run.stderr.readline()
            begun = time.monotonic()
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)
        finally:
            run.kill()
    print(f"Ctrl-C while it waits: over after {time.monotonic() - begun:.2f} s")
    assert time.monotonic() - begun < 10


def test_ranks_in_a_task(ray_cluster, mark, tmp_path):
    """They are the task's: its value, its failure with the report, and its end by force."""
    ray.init(ray_cluster.address, logging_level="ERROR")
    env = {"env_vars": dict([mark.split("=")])}

    @ray.remote(num_cpus=2, max_retries=0, runtime_env=env)
    def task(program):
        return procession.run(program, nproc=2)

    def fail():
        if os.environ["RANK"] == "1":
            raise ValueError("no such batch")

    def hold():
        tmp_path.joinpath("rank" + os.environ["RANK"]).write_text(str(os.getpid()))
        time.sleep(3600)

    assert ray.get(task.remote(lambda: int(os.environ["RANK"]) + 1), timeout=60) == [1, 2]
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(task.remote(fail), timeout=60)
    assert "raised ValueError: no such batch" in str(caught.value)
    assert type(caught.value.cause) is GroupFailed
    assert caught.value.cause.cause.rank == 1
    held = task.remote(hold)
    files = until(lambda: len(found := [*tmp_path.glob("rank?")]) == 2 and found, "ranks", 60)
    pids = [until(lambda p=p: p.read_text(), "a number") for p in files]
    ray.cancel(held, force=True)
    until(lambda: not any(alive(int(pid)) for pid in pids), "the end of both ranks", 30)
    ray.shutdown()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A directory that Ray copies to every node, and that is none of the ranks' otherwise."""
    place = tmp_path / "project"
    write(place / "beside.py", "VALUE = 41")
    source = "import os, beside\nopen(os.environ['SEEN'] + os.environ['RANK'], 'w').write("
    source += "f'{os.getcwd()} {beside.__file__}')"
    write(place / "part" / "main.py", "raise SystemExit('not the copy')")
    write(place / "main.py", source)
    monkeypatch.chdir(place)
    ray.init(log_to_driver=False, runtime_env={"working_dir": str(place)})
    return place


def test_a_function_runs_in_the_directory_that_ray_has_made(ray_cluster, project):
    def work():
        import beside

        return os.getcwd(), beside.__file__, beside.VALUE

    values = procession.run(work, engine=RayEngine(2, cpus=2), nnodes=2, nproc=2)
    for cwd, file, value in values:
        assert "working_dir_files" in cwd
        assert file == f"{cwd}/beside.py"
        assert value == 41
    given = procession.run(os.getcwd, engine=RayEngine(2), nnodes=2, cwd="/tmp")
    assert given == ["/tmp", "/tmp"]
    below = procession.run(os.getcwd, engine=RayEngine(2), nnodes=2, cwd=project / "part")
    assert below == [f"{values[0][0]}/part"] * 2


@pytest.mark.parametrize("program", [procession.Script("main.py"), [PYTHON, "main.py"]])
def test_a_script_runs_in_the_directory_that_ray_has_made(ray_cluster, project, tmp_path, program):
    seen = str(tmp_path / "seen")
    procession.run(program, engine=RayEngine(2), nnodes=2, env={"SEEN": seen})
    for rank in ("0", "1"):
        cwd, file = Path(seen + rank).read_text().split()
        assert "working_dir_files" in cwd
        assert file == f"{cwd}/beside.py"
