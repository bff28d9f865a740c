"""What the clusters of the tests have in common: daemons on machines, and a user's commands.

A machine is one of a network (a network namespace, with a host name of its own), whose cable can be
drawn; without a network, all are this one. What is started has `mark` in its environment, and
nothing of it is left after `stop`.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid

import pytest

from chaos.processes import alive, send
from conftest import marked, until

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path():
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def missing(programs):
    """Give those of these programs that are not installed."""
    return [p for p in programs if shutil.which(p, path=search_path()) is None]


class Machines:
    """nodes: their names. hosts: the machines, the user's (`head`) first. env: of all commands."""

    def __init__(self, nodes, hosts, programs, packages, prefix):
        if lacking := missing(programs):
            pytest.skip(f"there is no {', '.join(lacking)} (Debian: {packages})")
        self.nodes = nodes
        self.path, self.env = search_path(), {}
        self._environ = {**os.environ, "PATH": self.path}  # of daemons: not that of a test
        self.root = tempfile.mkdtemp(prefix=prefix)
        os.chmod(self.root, 0o755)  # daemons of other users reach into it
        self.mark = f"{type(self).__name__.upper()}_MARK={uuid.uuid4().hex}"
        self.hosts = dict(zip(("head", *nodes), hosts, strict=True)) if hosts else {}
        self.daemons = {}

    def spawn(self, name, *argv, on=None, env=(), cwd=None):
        """Start a daemon."""
        with open(f"{self.root}/{name}.out", "ab") as log:
            self.daemons[name] = subprocess.Popen(
                self.command(*argv, on=on),
                env={**self._environ, **dict(env)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, cwd=cwd or self.root,
            )  # fmt: skip

    def stop(self):
        """End everything, by force, and take the directory away."""
        for daemon in reversed(self.daemons.values()):
            daemon.kill()
            daemon.wait()

        def ended():
            left = self.left()
            for pid in left:
                send(pid, signal.SIGKILL)
            return not left

        until(ended, "the end of all that the daemons have started")
        shutil.rmtree(self.root)

    def left(self):
        """List what daemons have started, which may be orphans: by what they have inherited."""
        return [p for p in marked(self.mark) if alive(p)]

    def command(self, *argv, on):
        """Give the command line that runs `argv` on a machine; without a network, as it is."""
        if not self.hosts or on is None:
            return [*map(str, argv)]
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', on]
        return self.hosts[on].command(*named, *argv)

    def run(self, *argv, check=True, timeout=60, env=None, **options):
        """Run a command of the user to its end; gives what it said, as text."""
        done = subprocess.run(
            self.command(*argv, on="head"), env={**os.environ, **self.env, **(env or {})},
            capture_output=True, text=True, timeout=timeout, check=False, **options,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done

    def popen(self, *argv, env=None, **options):
        """Start a command of the user."""
        env = {**os.environ, **self.env, **(env or {})}
        return subprocess.Popen(self.command(*argv, on="head"), env=env, **options)

    def cut(self, node):
        self.hosts[node].cut()

    def mend(self, node):
        self.hosts[node].mend()
