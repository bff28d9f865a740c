"""Ray's engine on real clusters, with stand-ins for node processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cluster.enginework import Ear
from conftest import alive, until
from seams.jobs import EngineError
from seams.ray import RayEngine
from seams.ray import cluster as cluster_module
from seams.values import SpecError
from support import PYTHON, write

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.may_leave,  # Ray leaves descriptors in the process that was connected
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
]


@contextlib.contextmanager
def started(processes, nnodes=3, **options):
    engine, ear = RayEngine(nnodes, **options), Ear()
    engine.check()
    try:
        engine.start(processes.command, ear)
        yield engine, ear
    finally:
        engine.close()
        until(lambda: not processes.left(), "the end of all node processes", 2)


def threads_of_engine():
    return [t for t in threading.enumerate() if t.name == "procession-ray"]


def test_one_node_process_on_each_node(ray_cluster, ray_processes):
    processes = ray_processes
    before = signal.getsignal(signal.SIGTERM)
    with started(processes, cpus=2, gpus=2) as (engine, ear):
        up = processes.all_up()
        assert engine.slots == 3
        assert len({t["env"]["RAY_RAYLET_PID"] for t in up.values()}) == 3
        for told in up.values():
            assert told["env"]["CUDA_VISIBLE_DEVICES"] in ("0,1", "1,0")
            assert told["env"]["PROCESSION_AGENT_KEY"] == processes.key
            assert "OMP_NUM_THREADS" not in told["env"]
            assert "PYTHONBREAKPOINT" not in told["env"]
            assert told["blocked"] == []
            assert told["session"] == told["pid"]
        assert ear.events == []
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_ray_that_is_initialised_is_used_and_left(ray_cluster, ray_processes):
    processes = ray_processes
    ray.init(log_to_driver=False, runtime_env={"env_vars": {"OMP_NUM_THREADS": "3"}})
    with pytest.raises(SpecError, match="another Ray already"):
        RayEngine(3, address="192.0.2.9:6379").check()
    with started(processes, nnodes=2, spares=1):
        up = processes.all_up()
        assert [t["env"]["OMP_NUM_THREADS"] for t in up.values()] == ["3"] * 3
    assert ray.is_initialized()
    groups = ray.util.placement_group_table().values()
    assert {g["state"] for g in groups} == {"REMOVED"}
    until(lambda: ray.available_resources().get("CPU") == 6, "all CPUs")


def test_no_command_line_and_no_log_has_the_key(ray_cluster, ray_processes):
    processes = ray_processes
    with started(processes):
        processes.all_up()
        lines = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, check=True).stdout
        assert str(processes.path).encode() in lines
        assert processes.key.encode() not in lines
    logs = [p for p in Path(ray_cluster.session_dir).rglob("*") if p.is_file()]
    assert logs
    assert not [p for p in logs if processes.key.encode() in p.read_bytes()]


def test_an_actor_that_is_killed_and_one_in_its_place(ray_cluster, ray_processes):
    processes = ray_processes
    with started(processes) as (engine, ear):
        before = processes.all_up()
        os.kill(before[2]["actor"], signal.SIGKILL)
        begun = time.monotonic()
        until(lambda: not alive(before[2]["pid"]), "the end of its node process")
        until(ear.gone, "the word of it")
        print(f"node process gone and told after {time.monotonic() - begun:.2f} s")
        assert "actor" in ear.gone()[2]
        assert "\n" not in ear.gone()[2]
        engine.replace(2)
        assert processes.all_up()[2]["env"]["RAY_RAYLET_PID"] == before[2]["env"]["RAY_RAYLET_PID"]


def test_the_last_words_of_a_node_process(ray_cluster, ray_processes):
    processes = ray_processes
    with started(processes) as (_, ear):
        processes.all_up()
        processes.end(3)
        until(lambda: len(ear.gone()) == 3, "their ends")
        assert ear.gone()[0].endswith("exited with 3: last words")


def test_a_close_while_nodes_are_waited_for(ray_cluster, ray_processes):
    processes = ray_processes
    with started(processes, nnodes=4, wait=1000) as (_, ear):
        until(ear.said, "its word")
    assert not ear.over()
    assert not threads_of_engine()


def test_too_few_nodes(ray_cluster, ray_processes):
    processes = ray_processes
    with started(processes, 4, cpus=2, wait=4) as (_, ear):
        (why,) = until(ear.over, "its word")
    assert re.fullmatch(
        r"Ray did not give 4 nodes with 2 CPU each within [45] s: of its 4 nodes "
        r"\(([02] CPU(; )?){4}\) 3 would do \[P208\]",
        why,
    )
    assert ear.said().startswith("waiting for 4 nodes with 2 CPU each: of its 4 nodes (")


def test_nodes_that_are_in_use(ray_cluster, ray_processes):
    processes = ray_processes
    with started(processes, cpus=2):
        processes.all_up()
        engine, ear = RayEngine(1, cpus=2, wait=1), Ear()
        engine.start(processes.command, ear)
        (why,) = until(ear.over, "its word")
        assert "3 such nodes, but they are in use: 0 CPU free" in why
        engine.close()
        assert processes.up().keys() == {0, 1, 2}


def test_a_ray_of_its_own(ray_processes, tmp_path):
    """In a process of its own, since Ray cannot be used on any other cluster after it."""
    processes = ray_processes
    script = write(
        tmp_path / "drive.py",
        f"""
        import os, signal, sys, time
        from procession.engines.contract import NodeCommand
        from procession.engines.ray import RayEngine
        before, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
        engine = RayEngine(1, address="local")
        engine.check()
        command = NodeCommand({processes.command.argv!r}, {dict(processes.command.env)!r})
        engine.start(command, print)
        sys.stdin.readline()
        engine.close()
        assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
        assert signal.getsignal(signal.SIGTERM) is handler
        import ray
        assert not ray.is_initialized()
        """,
    )
    unset = ("RAY_ADDRESS", "RAY_AUTH_MODE")
    env = {n: v for n, v in os.environ.items() if n not in unset}
    env["HOME"] = str(tmp_path)  # where Ray keeps a token for it
    with subprocess.Popen(
        [PYTHON, str(script)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        try:
            processes.all_up(1)
            assert driver.communicate("\n", timeout=30)[0] == ""
        finally:
            driver.kill()
    assert driver.returncode == 0


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"pip install 'procession\[ray\]'"):
        RayEngine(2).check()


def test_without_a_cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster_module, "_running_here", lambda: None)
    RayEngine(1).check()
    with pytest.raises(EngineError, match="2 nodes wanted, and there is no cluster: run 'ray sta"):
        RayEngine(2).check()
    with pytest.raises(EngineError, match="1 node wanted, and there is no cluster"):
        RayEngine(1, address="auto").check()
    with pytest.raises(EngineError, match=r"no Ray answers at 127\.0\.0\.1:9 within"):
        RayEngine(1, address="127.0.0.1:9").check()
    with pytest.raises(SpecError, match="Ray Client cannot be used"):
        RayEngine(1, address="ray://127.0.0.1:10001").check()
    with pytest.raises(SpecError, match="no address"):
        RayEngine(1, address="somewhere").check()
