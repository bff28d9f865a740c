"""A real Slurm cluster in a directory of its own: munge, the controller, and nodes on this machine.

Each node is a slurmd with a name and a port of its own (`slurmd -N`). With a network, each runs on
a machine of it (a network namespace, with a host name of its own), and so do the controller and
the commands of the user: then cables can be drawn. All that is started has `MARK` in its
environment, and nothing of it is left after `stop`.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid

import pytest

from conftest import alive, command_line, marked, until
from seams.system import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")
DEVICES = ("/dev/full", "/dev/zero")  # which are taken for GPUs 0 and 1
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
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


def _path():
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def missing_programs():
    """Give what is not installed of all that a cluster needs."""
    return [p for p in PROGRAMS if shutil.which(p, path=_path()) is None]


class SlurmCluster:
    """The cluster.

    nodes: their names. env: what a user's environment needs. cpus, gpus: what each node claims to
    have; the GPUs are device files that nobody minds. proctrack: how Slurm tells which processes
    are a step's: by descent (linuxproc), or by the process groups of its tasks (pgid).
    """

    def __init__(self, count=4, *, cpus=4, gpus=2, hosts=None, proctrack="linuxproc",
                 prefix="slurm"):  # fmt: skip
        path, missing = _path(), missing_programs()
        if missing:
            pytest.skip(f"there is no {', '.join(missing)} (Debian packages slurm-wlm and munge)")
        self.nodes = [f"n{n + 1}" for n in range(count)]
        self.cpus, self.gpus, self.proctrack = cpus, gpus, proctrack
        self.root = tempfile.mkdtemp(prefix=prefix)
        os.chmod(self.root, 0o755)  # munge wants its socket to be within everybody's reach
        self._mark = f"SLURM_CLUSTER_MARK={uuid.uuid4().hex}"
        name, value = self._mark.split("=")
        self.env = {
            "PATH": path, "SLURM_CONF": f"{self.root}/slurm.conf", name: value,
            "MUNGE_SOCKET": f"{self.root}/munge/munge.sock",
        }  # fmt: skip
        self._hosts = dict(zip(("head", *self.nodes), hosts, strict=True)) if hosts else {}
        self._environ = {**os.environ, **self.env}  # of daemons: not that of a test
        self._daemons = {}

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
        self._spawn(
            "munged", "munged", "--foreground", "--force", "--num-threads=4",
            f"--socket={self.env['MUNGE_SOCKET']}", f"--pid-file={files['pid']}",
            f"--log-file={files['log']}", f"--seed-file={files['seed']}",
            f"--key-file={files['key']}",
        )  # fmt: skip
        until(lambda: os.path.exists(self.env["MUNGE_SOCKET"]), "munge's socket")
        self._spawn("slurmctld", "slurmctld", "-D", "-i", on="head")
        for node in self.nodes:
            self.start_node(node)
        self.wait_idle()

    def stop(self):
        """End everything, by force, and take the directory away."""
        # The daemons of jobs (slurmstepd) are orphans: they are found by what they inherited.
        for name in reversed(self._daemons):
            self._daemons[name].kill()
            self._daemons[name].wait()

        def ended():
            left = marked(self._mark)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not left

        until(ended, "the end of the cluster's processes")
        shutil.rmtree(self.root)

    def start_node(self, node):
        self._spawn(node, "slurmd", "-D", "-N", node, on=node)

    def kill_node(self, node):
        """Kill a node's slurmd, not its jobs; the controller notices in some 5 seconds."""
        daemon = self._daemons.pop(node)
        daemon.kill()
        daemon.wait()

    def cut(self, node):
        self._hosts[node].cut()

    def mend(self, node):
        self._hosts[node].mend()

    def _spawn(self, name, program, *argv, on=None):
        with open(f"{self.root}/{name}.out", "ab") as log:
            self._daemons[name] = subprocess.Popen(
                self.command(program, *argv, on=on),
                env=self._environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd=self.root,
            )  # fmt: skip

    def _write_conf(self):
        here = socket.gethostname()
        hosts = self._hosts
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

    def command(self, *argv, on=None):
        """Give the command line that runs `argv` on a node or head; without hosts, as it is."""
        if not self._hosts or on is None:
            return [*map(str, argv)]
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', on]
        return self._hosts[on].command(*named, *argv)

    def run(self, *argv, check=True, timeout=30, **options):
        """Run a command of a user to its end; gives what it said, as text."""
        env = {**os.environ, **self.env, **options.pop("env", {})}
        done = subprocess.run(
            self.command(*argv, on="head"), env=env, capture_output=True, text=True,
            timeout=timeout, check=False, **options,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done

    def popen(self, *argv, **options):
        """Start a command of a user."""
        env = {**os.environ, **self.env, **options.pop("env", {})}
        return subprocess.Popen(self.command(*argv, on="head"), env=env, **options)

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

    def processes(self, node=None, job=None):
        """List the processes of jobs: of one node, of one job, or all."""
        found = []
        for pid in marked(self._mark):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    env = f.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            on = [e.partition("=")[2] for e in env if e.startswith("SLURMD_NODENAME=")]
            of = [e.partition("=")[2] for e in env if e.startswith("SLURM_JOB_ID=")]
            if on and (node is None or node in on) and (job is None or str(job) in of):
                found.append(pid)
        return [p for p in found if alive(p)]

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
        left = self.processes()
        assert not left, [command_line(p) for p in left]
