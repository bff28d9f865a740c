"""Ray clusters on this machine, and stand-ins for node processes on them."""

import os
import signal
import uuid

import pytest

from cluster.enginework import NodeProcesses
from conftest import marked, until

# Says who it is in a file; ends when its standard input does, or with the code that a file says.
NODE_PROCESS = """
import json, os, signal, subprocess, sys, threading, time
here, slot = sys.argv[1], os.environ["PROCESSION_AGENT_SLOT"]
me = f"{here}/{slot}.{os.getpid()}"
own = [sys.executable, "-c", "import sys; sys.stdin.read()"]
child = subprocess.Popen(own, stdin=subprocess.PIPE)
blocked = [s.name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])]
told = {"slot": int(slot), "pid": os.getpid(), "actor": os.getppid(), "child": child.pid,
        "env": dict(os.environ), "blocked": blocked, "session": os.getsid(0)}
with open(me + ".new", "w") as f:
    json.dump(told, f)
os.rename(me + ".new", me)
def at_end_of_input():
    sys.stdin.read()
    os._exit(9)
if os.environ["PROCESSION_AGENT_STDIN"] == "1":
    threading.Thread(target=at_end_of_input, daemon=True).start()
while not os.path.exists(f"{here}/end"):
    time.sleep(0.02)
code = int(open(f"{here}/end").read())
print("here are some", flush=True)
print("last words", file=sys.stderr, flush=True)
os._exit(code)
"""


OURS = "PROCESSION_RAY_TESTS"  # in the environment of all that runs on our clusters


class RayCluster:
    """A head without CPUs, and nodes with two CPUs and two GPUs (as Ray believes) each."""

    def __init__(self, nodes):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else it keeps a token in ~/.ray
        os.environ.setdefault(OURS, uuid.uuid4().hex)
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        for _ in range(nodes):
            self.add_node()

    def add_node(self):
        self.cluster.add_node(num_cpus=2, num_gpus=2)

    @property
    def address(self):
        return self.cluster.address

    @property
    def session_dir(self):
        return self.cluster.head_node.get_session_dir_path()

    def kill_daemon(self, pid):
        """Kill the raylet with this number."""
        for node in self.cluster.worker_nodes:
            process = node.all_processes["raylet"][0].process
            if process.pid == pid:
                process.send_signal(signal.SIGKILL)
                process.wait()  # Ray's workers take a zombie for alive
                return
        pytest.fail(f"no raylet {pid}")

    def close(self):
        disconnect()
        self.cluster.shutdown()


def disconnect():
    import ray

    if ray.is_initialized():
        ray.shutdown()


class RayNodeProcesses(NodeProcesses):
    """Stand-ins that this engine starts."""

    def __init__(self, path):
        self.mark = f"MARK={uuid.uuid4().hex}"
        super().__init__(path, NODE_PROCESS, uuid.uuid4().hex, **dict([self.mark.split("=")]))

    def lives(self, pid):
        """Tell whether it is up: one that was killed leaves what it has said."""
        return pid in self.left()

    def left(self):
        """Give the node processes and their children that live."""
        return marked(self.mark)


@pytest.fixture(scope="session")
def ray_session():
    cluster = RayCluster(3)
    yield cluster
    cluster.close()


@pytest.fixture
def ray_cluster(ray_session, monkeypatch):
    """Three nodes, to which nothing is done that lasts."""
    monkeypatch.setenv("RAY_ADDRESS", ray_session.address)
    yield ray_session
    disconnect()


@pytest.fixture
def ray_processes(tmp_path):
    processes = RayNodeProcesses(tmp_path)
    yield processes
    until(lambda: not processes.left(), "the end of all node processes")
