"""Machines as network namespaces on one switch, whose cables can be drawn and put back."""

import contextlib
import itertools
import os
import shutil
import subprocess

import pytest

_numbers = itertools.count()


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


class Host:
    """A machine: the name of its namespace, its address, and its end of the cable."""

    def __init__(self, network, number):
        self.number = number
        self.name = f"{network}h{number}"
        self.address = f"10.213.77.{number + 1}"
        self.cable = "uplink"
        self._switch, self._port = network, f"p{number}"

    def command(self, *argv):
        """Give the command line that runs `argv` on this machine.

        Not `ip netns exec`, which mounts a /sys of its own, without /sys/fs/cgroup.
        """
        return ["nsenter", f"--net=/run/netns/{self.name}", *map(str, argv)]

    def cut(self):
        """Draw the cable: nothing reaches the machine any more, and no connection is closed."""
        ip("-n", self._switch, "link", "set", self._port, "down")

    def mend(self):
        ip("-n", self._switch, "link", "set", self._port, "up")


@contextlib.contextmanager
def network(count):
    """Make `count` machines that reach each other; skips the test where that is not permitted."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` (Debian package iproute2)")
    switch = f"procession{os.getpid()}x{next(_numbers)}"
    hosts = [Host(switch, n) for n in range(count)]
    made = []
    try:
        for name in (switch, *(h.name for h in hosts)):
            done = ip("netns", "add", name, check=False)
            if done.returncode:
                why = done.stderr.strip()
                pytest.skip(f"network namespaces are not permitted here: {why}")
            made.append(name)
        done = ip("-n", switch, "link", "add", "bridge", "type", "bridge", check=False)
        if done.returncode:
            pytest.skip(f"no virtual switch can be had here: {done.stderr.strip()}")
        ip("-n", switch, "link", "set", "bridge", "up")
        for host in hosts:
            port = f"p{host.number}"
            ip("link", "add", port, "netns", switch, "type", "veth",
               "peer", "name", host.cable, "netns", host.name)  # fmt: skip
            ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", host.cable)
            ip("-n", host.name, "link", "set", host.cable, "up")
            ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts
    finally:
        for name in made:
            ip("netns", "del", name)
