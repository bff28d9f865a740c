"""Machines with a real sshd each: network namespaces with host names and cables of their own.

The "user" is on the machine `head`; `n1`, `n2`, ... are those that ssh reaches, by a configuration
file that names their addresses and a key. All that is started has `MARK` in its environment, or is
found by the sshd that it is below.
"""

import getpass
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid

import pytest

from conftest import alive, marked, until

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
SSHD = """\
Port 22
ListenAddress {address}
HostKey {root}/host_key
PidFile none
AuthorizedKeysFile {root}/authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin yes
PermitUserEnvironment no
AcceptEnv NONE
SetEnv {mark}
MaxStartups 200
"""
CLIENT = """\
Host *
  User {user}
  IdentityFile {root}/key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking {strict}
"""


class SshCluster:
    """nodes: the names of the machines. config: what `ssh -F` takes. env: for a user's commands."""

    def __init__(self, hosts):
        self.path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])
        missing = [p for p in ("sshd", "ssh", "ssh-keygen") if not shutil.which(p, path=self.path)]
        if missing:
            pytest.skip(f"there is no {', '.join(missing)} (Debian package openssh-server)")
        self.nodes = [f"n{n}" for n in range(1, len(hosts))]
        self._hosts = dict(zip(("head", *self.nodes), hosts, strict=True))
        self.root = tempfile.mkdtemp(prefix="ssh")
        self.config = f"{self.root}/config"
        self.mark = f"SSH_CLUSTER_MARK={uuid.uuid4().hex}"
        self.daemons = {}

    def start(self):
        # sshd drops its privileges into this directory, which the package makes at boot.
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for name in ("host_key", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.root}/{name}"],
                check=True,
            )
        os.chmod(self.root, 0o755)
        shutil.copy(f"{self.root}/key.pub", f"{self.root}/authorized_keys")
        with open(f"{self.root}/host_key.pub") as f:
            host_key = " ".join(f.read().split()[:2])
        with open(f"{self.root}/known_hosts", "w") as f:
            for host in self._hosts.values():
                f.write(f"{host.address} {host_key}\n")
        values = {"user": getpass.getuser(), "root": self.root, "strict": "yes"}
        with open(self.config, "w") as f:
            for node in self.nodes:
                f.write(f"Host {node}\n  HostName {self._hosts[node].address}\n")
            f.write(CLIENT.format(**values))
        for node in self.nodes:
            self.start_node(node)

    def start_node(self, node):
        address = self._hosts[node].address
        with open(f"{self.root}/sshd_{node}", "w") as f:
            f.write(SSHD.format(root=self.root, address=address, mark=self.mark))
        daemon = [
            shutil.which("sshd", path=self.path),
            "-D",
            "-e",
            "-f",
            f"{self.root}/sshd_{node}",
        ]
        with open(f"{self.root}/{node}.log", "ab") as log:
            self.daemons[node] = subprocess.Popen(
                self.command(*daemon, on=node),
                env={**os.environ, "PATH": self.path, self.mark.partition("=")[0]: "daemon"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
            )  # fmt: skip

        def answers():
            words = ["ssh", "-F", self.config, "-o", "BatchMode=yes", node, "true"]
            return self.run(*words, check=False).returncode == 0

        until(answers, f"sshd on {node}")

    def stop(self):
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()

        def ended():
            left = [p for p in marked(self.mark) if alive(p)]
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not left

        until(ended, "the end of what ssh has started")
        shutil.rmtree(self.root)

    def command(self, *argv, on):
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', on]
        return self._hosts[on].command(*named, *argv)

    def run(self, *argv, check=True, timeout=60, **options):
        """Run a command of the user on the head to its end; gives what it said, as text."""
        done = subprocess.run(
            self.command(*argv, on="head"), capture_output=True, text=True, timeout=timeout,
            check=False, **options,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done

    def popen(self, *argv, **options):
        return subprocess.Popen(self.command(*argv, on="head"), **options)

    def words(self, *words, hosts=None):
        """Give the command line of `procession run` on these hosts, by default on all."""
        hosts = ",".join(hosts or self.nodes)
        return [
            shutil.which("procession", path=os.path.dirname(sys.executable)), "run",
            "--engine", "ssh", "--hosts", hosts, f"--engine-options=-F {self.config}", *words,
        ]  # fmt: skip

    def left(self):
        """List what runs on the nodes: all that a connection has started."""
        return [p for p in marked(self.mark) if alive(p)]

    def wait_empty(self):
        until(lambda: not self.left(), "the end of everything on the nodes")

    def cut(self, node):
        self._hosts[node].cut()

    def mend(self, node):
        self._hosts[node].mend()


__all__ = ["SshCluster"]
