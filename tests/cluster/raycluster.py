"""Ray clusters on this machine, and stand-ins for agents on them."""

import json
import os
import signal
import sys
import uuid

import pytest

from conftest import marked, until
from seams.jobs import AgentCommand, EngineGone, Said, SlotGone
from support import write

# Says who it is in a file; ends when its standard input does, or with the code that a file says.
AGENT = """
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


class Ear:
    """Keeps what an engine tells."""

    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    def gone(self):
        return {e.slot: e.why for e in list(self.events) if isinstance(e, SlotGone)}

    def over(self):
        return [e.why for e in list(self.events) if isinstance(e, EngineGone)]

    def said(self):
        return "\n".join(e.text for e in list(self.events) if isinstance(e, Said))


class Agents:
    """Stand-ins that an engine starts."""

    def __init__(self, path):
        self.path = path / "agents"
        self.path.mkdir()
        self.mark = uuid.uuid4().hex
        script = write(path / "agent.py", AGENT)
        self.key = uuid.uuid4().hex
        env = {"PROCESSION_AGENT": "{}", "PROCESSION_AGENT_KEY": self.key, "MARK": self.mark}
        self.command = AgentCommand((sys.executable, str(script), str(self.path)), env)

    def up(self):
        """Give what those told that are up, by slot."""
        told = [json.loads(p.read_text()) for p in self.path.glob("*.*[0-9]")]
        return {t["slot"]: t for t in told if t["pid"] in self.left()}

    def all_up(self, slots=(0, 1, 2), patience=30):
        what = f"agents in {slots}"
        return until(lambda: self.up().keys() == set(slots) and self.up(), what, patience)

    def left(self):
        """Give the agents and their children that live."""
        return marked(self.mark)

    def end(self, code):
        write(self.path / "end.new", str(code)).rename(self.path / "end")


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
def ray_agents(tmp_path):
    agents = Agents(tmp_path)
    yield agents
    until(lambda: not agents.left(), "the end of all agents")
