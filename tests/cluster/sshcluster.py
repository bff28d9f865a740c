"""Machines with a real sshd each: network namespaces with host names and cables of their own.

The "user" is on the machine `head`; `n1`, `n2`, ... are those that ssh reaches, by a configuration
file that names their addresses and a key.
"""

import getpass
import os
import shutil
import subprocess
import sys

from cluster.machines import Machines
from conftest import until

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
SetEnv {mark}{places}
MaxStartups 200
"""
CLIENT = """\
Host *
  User {user}
  IdentityFile {root}/key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
"""


class SshCluster(Machines):
    """config: what `ssh -F` takes. places: nodes have `tmp` and `run` of ours for their files."""

    def __init__(self, hosts, *, places=False):
        nodes = [f"n{n}" for n in range(1, len(hosts))]
        super().__init__(nodes, hosts, ("sshd", "ssh", "ssh-keygen"), "openssh-server", "ssh")
        self.config = f"{self.root}/config"
        self._places = ""
        if places:
            self._places = f" TMPDIR={self.root}/tmp XDG_RUNTIME_DIR={self.root}/run"
            for folder in ("tmp", "run"):
                os.mkdir(f"{self.root}/{folder}", 0o700)

    def start(self):
        # sshd drops its privileges into this directory, which the package makes at boot.
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for name in ("host_key", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.root}/{name}"],
                check=True,
            )
        shutil.copy(f"{self.root}/key.pub", f"{self.root}/authorized_keys")
        with open(f"{self.root}/host_key.pub") as f:
            host_key = " ".join(f.read().split()[:2])
        with open(f"{self.root}/known_hosts", "w") as f:
            for host in self.hosts.values():
                f.write(f"{host.address} {host_key}\n")
        values = {"user": getpass.getuser(), "root": self.root}
        with open(self.config, "w") as f:
            for node in self.nodes:
                f.write(f"Host {node}\n  HostName {self.hosts[node].address}\n")
            f.write(CLIENT.format(**values))
        for node in self.nodes:
            self.start_node(node)

    def start_node(self, node):
        address = self.hosts[node].address
        with open(f"{self.root}/sshd_{node}", "w") as f:
            values = {"root": self.root, "mark": self.mark, "places": self._places}
            f.write(SSHD.format(address=address, **values))
        sshd = shutil.which("sshd", path=self.path)
        env = {self.mark.partition("=")[0]: "daemon"}
        self.spawn(node, sshd, "-D", "-e", "-f", f"{self.root}/sshd_{node}", on=node, env=env,
                   cwd="/")  # fmt: skip

        def answers():
            words = ["ssh", "-F", self.config, "-o", "BatchMode=yes", node, "true"]
            return self.run(*words, check=False).returncode == 0

        until(answers, f"sshd on {node}")

    def words(self, *words, hosts=None):
        """Give the command line of `procession run` on these hosts, by default on all."""
        hosts = ",".join(hosts or self.nodes)
        return [
            shutil.which("procession", path=os.path.dirname(sys.executable)), "run",
            "--engine", "ssh", "--hosts", hosts, f"--engine-options=-F {self.config}", *words,
        ]  # fmt: skip

    def wait_empty(self):
        until(lambda: not self.left(), "the end of everything on the nodes")
