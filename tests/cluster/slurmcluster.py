"""A real Slurm cluster in a directory of its own: munge, the controller, and nodes on this machine.

Each node is a slurmd with a name and a port of its own (`slurmd -N`). With a network, each runs on
a machine of it, and so do the controller and the commands of the user: then cables can be drawn.
"""

import getpass
import os
import socket

from cluster.machines import Machines
from conftest import command_line, marked, until
from seams.system import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")
DEVICES = ("/dev/full", "/dev/zero")  # which are taken for GPUs 0 and 1
CONF = """\
ClusterName=procession
SlurmctldHost={head}({head_address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={root}/munge/munge.sock
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=5
SlurmdTimeout=5
TCPTimeout=2
MessageTimeout=10
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PreemptMode=OFF PriorityTier=1
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PreemptMode=OFF PriorityTier=10
"""


class SlurmCluster(Machines):
    """The cluster.

    cpus, gpus: what each node claims to have; the GPUs are device files that nobody minds.
    proctrack: how Slurm tells which processes are a step's: by descent (linuxproc), or by the
    process groups of its tasks (pgid).
    """

    def __init__(self, count=4, *, cpus=4, gpus=2, hosts=None, proctrack="linuxproc",
                 prefix="slurm"):  # fmt: skip
        nodes = [f"n{n + 1}" for n in range(count)]
        super().__init__(nodes, hosts, PROGRAMS, "slurm-wlm and munge", prefix)
        self.cpus, self.gpus, self.proctrack = cpus, gpus, proctrack
        self.env = {
            "PATH": self.path, "SLURM_CONF": f"{self.root}/slurm.conf",
            "MUNGE_SOCKET": f"{self.root}/munge/munge.sock", **dict([self.mark.split("=")]),
        }  # fmt: skip

    # -- its life

    def start(self):
        """Start everything, and wait until all nodes are idle."""
        os.mkdir(f"{self.root}/munge", 0o755)
        os.mkdir(f"{self.root}/state")
        key = os.open(f"{self.root}/munge/key", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(key, os.urandom(128))
        os.close(key)
        self._write_conf()
        files = {n: f"{self.root}/munge/{n}" for n in ("pid", "log", "seed", "key")}
        self.spawn(
            "munged", "munged", "--foreground", "--force", "--num-threads=4",
            f"--socket={self.env['MUNGE_SOCKET']}", f"--pid-file={files['pid']}",
            f"--log-file={files['log']}", f"--seed-file={files['seed']}",
            f"--key-file={files['key']}", env=self.env,
        )  # fmt: skip
        until(lambda: os.path.exists(self.env["MUNGE_SOCKET"]), "munge's socket")
        self.spawn("slurmctld", "slurmctld", "-D", "-i", on="head", env=self.env)
        for node in self.nodes:
            self.start_node(node)
        self.wait_idle()

    def start_node(self, node):
        self.spawn(node, "slurmd", "-D", "-N", node, on=node, env=self.env)

    def kill_node(self, node):
        """Kill a node's slurmd, not its jobs; the controller notices in some 5 seconds."""
        daemon = self.daemons.pop(node)
        daemon.kill()
        daemon.wait()

    def _write_conf(self):
        here = socket.gethostname()
        hosts = self.hosts
        values = {
            "root": self.root, "user": getpass.getuser(), "port": free_port(),
            "proctrack": self.proctrack, "head": "head" if hosts else here,
            "head_address": hosts["head"].address if hosts else "127.0.0.1",
        }  # fmt: skip
        text = CONF.format(**values)
        for node in self.nodes:
            host = node if hosts else here
            address = hosts[node].address if hosts else "127.0.0.1"
            text += (
                f"NodeName={node} NodeHostname={host} NodeAddr={address} Port={free_port()} "
                f"CPUs={self.cpus} RealMemory=1000 Gres=gpu:{self.gpus} State=UNKNOWN\n"
            )
        with open(f"{self.root}/slurm.conf", "w") as f:
            f.write(text)
        with open(f"{self.root}/gres.conf", "w") as f:
            devices = DEVICES[: self.gpus]
            f.write(f"NodeName={','.join(self.nodes)} Name=gpu File={','.join(devices)}\n")
        with open(f"{self.root}/plugstack.conf", "w"):
            pass

    # -- its use

    def states(self):
        """Give what the controller says of each node, such as idle or down*."""
        said = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).stdout
        return dict(line.split() for line in said.splitlines())

    def wait_idle(self, *nodes, patience=20):
        wanted = nodes or self.nodes

        def idle():
            states = self.states()
            return all(states.get(n) == "idle" for n in wanted)

        try:
            until(idle, f"idleness of {wanted}", patience)
        except BaseException:
            print(self.states(), self.log("slurmctld.log")[-3000:])
            raise

    def wait_down(self, node, patience=30):
        until(lambda: self.states().get(node, "").startswith("down"), f"{node} down", patience)

    def job(self, number):
        """Give what the controller knows of a job."""
        said = self.run("scontrol", "show", "job", "-o", number).stdout
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def wait_job(self, number, *states, patience=30):
        return until(lambda: self.job(number)["JobState"] in states, f"{number} {states}", patience)

    def log(self, name):
        try:
            with open(f"{self.root}/{name}", errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def clear(self):
        """Cancel all jobs, by force, and wait until all nodes are idle again."""
        self.run("scancel", "--user", getpass.getuser())
        self.run("scancel", "--signal=KILL", "--full", "--user", getpass.getuser(), check=False)
        self.wait_idle()
        of_jobs = {p for node in self.nodes for p in marked(f"SLURMD_NODENAME={node}")}
        left = [p for p in self.left() if p in of_jobs]
        assert not left, [command_line(p) for p in left]
