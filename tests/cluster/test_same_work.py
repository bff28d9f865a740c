"""The same work on Slurm, Ray and ssh: 6 ranks on 3 nodes, and what may befall them.

With PROCESSION_CLUSTER_TABLE=FILE, what was measured is appended to that file, one JSON object per
line, for the table of docs/clusters/index.md.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from cluster.enginework import process_above
from cluster.raycluster import RayCluster
from conftest import alive, command_line, marked, until

WORK = Path(__file__).with_name("samework.py")
pytestmark = [
    pytest.mark.may_leave,  # what is left is looked for here, by a mark of each test's own
    pytest.mark.long,
    pytest.mark.timeout(180),
]


class Slurm:
    """The driver runs in an allocation."""

    name = "slurm"

    def __init__(self, cluster):
        self.cluster = cluster

    def start(self, nodes, argv, env):
        line = ["salloc", "--quiet", "--no-kill", f"-N{nodes}", *argv]
        return self.cluster.popen(*line, env=env, start_new_session=True)

    def kill_daemon(self, pid):
        node = variable(pid, "SLURMD_NODENAME")
        self.cluster.kill_node(node)
        return node


class Ray:
    """The driver is anybody's process."""

    name = "ray"

    def __init__(self, cluster):
        self.cluster = cluster

    def start(self, nodes, argv, env):
        env = {**os.environ, **env, "RAY_ADDRESS": self.cluster.address}
        return subprocess.Popen(list(map(str, argv)), env=env, start_new_session=True)

    def kill_daemon(self, pid):
        self.cluster.kill_daemon(int(variable(pid, "RAY_RAYLET_PID")))


class Ssh:
    """The driver is on the head."""

    name = "ssh"

    def __init__(self, cluster):
        self.cluster = cluster

    def start(self, nodes, argv, env):
        env = {**os.environ, **env, "SSH_CONFIG": self.cluster.config}
        return self.cluster.popen(*argv, env=env, start_new_session=True)


@pytest.fixture(params=["slurm", "ray", "ssh"])
def ground(request):
    """A cluster of three nodes at least, to which nothing is done that lasts."""
    if request.param == "slurm":
        return Slurm(request.getfixturevalue("slurm"))
    if request.param == "ssh":
        return Ssh(request.getfixturevalue("ssh"))
    pytest.importorskip("ray")
    return Ray(request.getfixturevalue("ray_cluster"))


def variable(pid, name):
    """Give a variable of the node process above a rank."""
    environ = Path(f"/proc/{process_above(pid)}/environ").read_bytes().split(b"\0")
    return next(e for e in environ if e.startswith(f"{name}=".encode())).decode().partition("=")[2]


class Run:
    """A driver with some work, and its ranks. left: what of it lives."""

    def __init__(self, ground, work, path, *, nodes=3, allocated=None, nproc=2):
        self.here = path / "here"
        self.here.mkdir()
        self.world = nodes * nproc
        self.node_processes = set()
        name, value = "SAMEWORK", uuid.uuid4().hex
        self.mark = f"{name}={value}"
        argv = [sys.executable, WORK, ground.name, work, self.here, nodes, nproc]
        env = {name: value, "PYTHONPATH": str(WORK.parents[1])}
        self.process = ground.start(allocated or nodes, argv, env)

    def pids(self, attempt=0):
        """Wait for all ranks of an attempt; gives their pids, and when the last was there."""

        def there():
            files = [self.here / f"{attempt}.{r}" for r in range(self.world)]
            return all(f.exists() for f in files) and [f.read_text().split() for f in files]

        found = until(there, f"ranks of attempt {attempt}", 60)
        pids = [int(pid) for pid, _ in found]
        self.node_processes |= {process_above(pid) for pid in pids}
        return pids, max(float(at) for _, at in found)

    def told(self, patience=60):
        until((self.here / "told").exists, "an end", patience)
        return json.loads((self.here / "told").read_text())

    def say(self, word):
        (self.here / word).touch()

    def left(self):
        return [p for p in {*marked(self.mark), *self.node_processes} if alive(p)]

    def leaves_nothing(self, patience=10):
        began = time.monotonic()
        until(lambda: not self.left(), f"the end of {self.left()}", patience)
        return time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None and kind is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)


def noted(ground, what, came, seconds, left="nothing"):
    """Keep what was measured for the table."""
    file = os.environ.get("PROCESSION_CLUSTER_TABLE")
    line = {"engine": ground.name, "what": what, "came": came, "seconds": seconds, "left": left}
    print(json.dumps(line))
    if file:
        with open(file, "a") as f:
            f.write(json.dumps(line) + "\n")


def test_values_by_global_rank(ground, tmp_path):
    with Run(ground, "values", tmp_path) as run:
        told = run.told()
    assert told["values"] == [[r, r % 2, r // 2, 6] for r in range(6)]
    run.leaves_nothing()
    noted(ground, "values of a function", "values by global rank", told["seconds"])


@pytest.mark.torch
def test_ddp(ground, tmp_path):
    pytest.importorskip("torch")
    with Run(ground, "ddp", tmp_path) as run:
        told = run.told(120)
    assert len({tuple(w) for w in told["values"]}) == 1
    run.leaves_nothing()
    noted(ground, "torch DDP over gloo, 10 steps", "equal weights on all", told["seconds"])


def test_a_rank_exits_7(ground, tmp_path):
    with Run(ground, "hold", tmp_path) as run:
        run.pids()
        run.say("fail")
        told = run.told()
    assert (told["rank"], told["code"], told["failures"]) == (3, 7, [3])
    run.leaves_nothing()
    seconds = told["at"] - float((run.here / "failed").read_text())
    noted(ground, "a rank exits with code 7", "rank 3 is the cause; all ended", seconds)


def test_a_rank_is_killed(ground, tmp_path):
    with Run(ground, "hold", tmp_path) as run:
        pids, _ = run.pids()
        began = time.monotonic()
        os.kill(pids[4], signal.SIGKILL)
        told = run.told()
    assert (told["rank"], told["code"], told["failures"]) == (4, 137, [4])
    run.leaves_nothing()
    noted(ground, "a rank is killed", "rank 4 is the cause; all ended", told["at"] - began)


def test_a_node_process_is_killed(ground, tmp_path):
    with Run(ground, "hold", tmp_path) as run:
        pids, _ = run.pids()
        began = time.monotonic()
        os.kill(process_above(pids[2]), signal.SIGKILL)
        told = run.told()
    assert (told["outcome"], told["failures"]) == ("NODE_LOST", [2, 3])
    run.leaves_nothing()
    noted(ground, "node process killed", "its node is the cause; all ended", told["at"] - began)


def test_the_driver_is_killed(ground, tmp_path):
    with Run(ground, "hold", tmp_path) as run:
        run.pids()
        (driver,) = [p for p in run.left() if "samework.py" in command_line(p) and _is_driver(p)]
        os.kill(driver, signal.SIGKILL)
        seconds = run.leaves_nothing(5)
    noted(ground, "the driver is killed", "all ended", seconds)


def _is_driver(pid):
    words = command_line(pid).split()
    return words[1:2] == [str(WORK)]


def test_a_restart_on_the_same_nodes(ground, tmp_path):
    with Run(ground, "again", tmp_path) as run:
        run.pids()
        run.say("fail")
        _, there = run.pids(attempt=1)
        run.say("end")
        told = run.told()
    assert told["values"] == ["1"] * 6
    run.leaves_nothing()
    seconds = there - float((run.here / "failed").read_text())
    noted(ground, "restart after a rank's failure", "all ranks of the next attempt run", seconds)


def test_a_node_is_lost_and_a_spare_one_takes_its_place(tmp_path, request):
    """On Slurm, where the allocation has a node more."""
    ground = Slurm(request.getfixturevalue("slurm"))
    with Run(ground, "spare", tmp_path, allocated=4) as run:
        pids, _ = run.pids()
        node = variable(pids[0], "SLURMD_NODENAME")
        began = time.monotonic()
        os.kill(process_above(pids[0]), signal.SIGKILL)
        again, there = run.pids(attempt=1)
        assert node not in {variable(p, "SLURMD_NODENAME") for p in again}
        run.say("end")
        assert run.told()["values"] == ["1"] * 6
    run.leaves_nothing()
    what = "restart on a spare node"
    noted(ground, what, "all ranks of the next attempt run", there - began)


def test_a_daemon_of_ray_is_killed(tmp_path):
    pytest.importorskip("ray")
    cluster = RayCluster(4)
    try:
        ground = Ray(cluster)
        with Run(ground, "spare", tmp_path) as run:
            pids, _ = run.pids()
            began = time.monotonic()
            ground.kill_daemon(pids[0])
            until(lambda: not any(map(alive, pids)), "the end of all ranks", 30)
            ended = time.monotonic() - began
            _, there = run.pids(attempt=1)
            run.say("end")
            assert run.told()["values"] == ["1"] * 6
        run.leaves_nothing()
    finally:
        cluster.close()
    noted(ground, "a node's daemon is killed", "the node is lost; all ended", ended)
    what = "restart on a spare node"
    noted(ground, what, "all ranks of the next attempt run", there - began)


def test_a_daemon_of_slurm_is_killed(tmp_path, request):
    """Its ranks go on: their node process is there, and that counts."""
    ground = Slurm(request.getfixturevalue("slurm"))
    with Run(ground, "again", tmp_path) as run:
        pids, _ = run.pids()
        node = ground.kill_daemon(pids[0])
        try:
            ground.cluster.wait_down(node)
            assert all(map(alive, pids))
            run.say("fail")
            run.pids(attempt=1)
            run.say("end")
            assert run.told()["values"] == ["1"] * 6
        finally:
            ground.cluster.start_node(node)
    run.leaves_nothing()
    noted(ground, "a node's daemon is killed", "ranks go on, and can be restarted", None)


@pytest.mark.parametrize("name", ["slurm", "ssh"])
def test_a_link_is_cut(name, tmp_path, request):
    on_slurm = name == "slurm"
    grounds = (Slurm, "networked") if on_slurm else (Ssh, "ssh")
    ground = grounds[0](request.getfixturevalue(grounds[1]))
    with Run(ground, "hold", tmp_path) as run:
        pids, _ = run.pids()
        cut_off = variable(pids[2], "SLURMD_NODENAME") if on_slurm else "n2"
        began = time.monotonic()
        ground.cluster.cut(cut_off)
        try:
            told = run.told()
            until(lambda: not any(map(alive, pids)), "the end of all ranks", 20)
            ended = time.monotonic() - began
        finally:
            ground.cluster.mend(cut_off)
            if on_slurm:
                ground.cluster.wait_idle(cut_off, patience=60)
    assert (told["outcome"], told["failures"]) == ("NODE_LOST", [2, 3])
    run.leaves_nothing(30)
    what = "a link is cut (lease 5 s)"
    noted(ground, what, "the node is the cause; its ranks end by themselves", ended)


def test_three_hundred_ranks(ground, tmp_path):
    with Run(ground, "many", tmp_path, nproc=100) as run:
        told = run.told(120)
    assert told["values"] == [None] * 300
    run.leaves_nothing()
    noted(ground, "3 nodes × 100 ranks of `true`", "all finished", told["seconds"])
