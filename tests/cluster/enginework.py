"""Stand-ins for node processes, and an engine with an ear."""

import contextlib
import json
import os
import re
import sys

from chaos.processes import command_line, parent
from conftest import until
from seams.jobs import NodeCommand, Said, SlotGone
from seams.slurm import Allocation, Slurm
from support import write

# Says who it is in a file, and ends with the code that another file says.
NODE_PROCESS = """
import json, os, signal, sys, time
here = sys.argv[1]
slot = os.environ.get("PROCESSION_AGENT_SLOT") or os.environ["SLURM_PROCID"]
me = f"{here}/{slot}.{os.getpid()}"
signals = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(number, lambda n, _: signals.append(signal.Signals(n).name) or tell(n))
def tell(number=None):
    if number:
        os.write(1, f"got {number}\\n".encode())
    told = {"slot": int(slot), "pid": os.getpid(), "env": dict(os.environ), "signals": signals,
            "cpus": sorted(os.sched_getaffinity(0))}
    with open(me + ".new", "w") as f:
        json.dump(told, f)
    os.rename(me + ".new", me)
tell()
print("hello from", slot, flush=True)
while not os.path.exists(f"{here}/end"):
    time.sleep(0.02)
os.remove(me)
sys.exit(int(open(f"{here}/end").read()))
"""


class Ear:
    """Keeps what an engine tells."""

    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    def _of(self, kind):
        return [e for e in list(self.events) if type(e) is kind]

    def gone(self):
        return {e.slot: e.why for e in self._of(SlotGone) if e.slot is not None}

    def said(self):
        return "\n".join(e.text for e in self._of(Said))

    def over(self):
        return [e.why for e in self._of(SlotGone) if e.slot is None]


class NodeProcesses:
    """Stand-ins that an engine starts. key: of their driver; more: variables."""

    def __init__(self, path, script=NODE_PROCESS, key="5e", **more):
        self.path = path / "agents"
        self.path.mkdir()
        self.key = key
        argv = (sys.executable, str(write(path / "process.py", script)), str(self.path))
        env = {"PROCESSION_AGENT": "{}", "PROCESSION_AGENT_KEY": key, **more}
        self.command = NodeCommand(argv, env)

    def up(self):
        """Give what those say that are up, by slot."""
        told = [json.loads(p.read_text()) for p in self.path.glob("*.*[0-9]")]
        return {t["slot"]: t for t in told if self.lives(t["pid"])}

    def lives(self, pid):
        """Tell whether a process that has said something is up: it takes that back at its end."""
        return True

    def all_up(self, count=3, patience=30):
        what = f"{count} node processes"
        return until(lambda: len(self.up()) == count and self.up(), what, patience)

    def end(self, code=0):
        write(self.path / "end.new", str(code)).rename(self.path / "end")


def process_above(pid):
    """Give the node process that a rank is below."""
    while "procession.engines.nodeprocess" not in command_line(pid):
        pid = parent(pid)
        assert pid > 1, "no node process is above it"
    return pid


@contextlib.contextmanager
def allocated(cluster, *options):
    """An allocation without a shell; gives it as the engine sees it."""
    said = cluster.run("salloc", "--no-shell", *options).stderr
    job = re.search(r"Granted job allocation (\d+)", said)[1]
    try:
        listed = cluster.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
        nodes = cluster.run("scontrol", "show", "hostnames", listed).stdout.split()
        yield Allocation(job, tuple(nodes))
    finally:
        cluster.run("scancel", job, check=False)


@contextlib.contextmanager
def started(allocation, processes, **options):
    """An engine whose node processes are being started; gives it and its ear."""
    ear = Ear()
    engine = Slurm(allocation, env=dict(os.environ), **options)
    try:
        engine.start(processes.command, ear)
        yield engine, ear
    finally:
        engine.kill()
        engine.close()
