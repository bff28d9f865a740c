"""Machines as network namespaces on one switch, with the processes that run on them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CABLE = "uplink"


@dataclass(frozen=True)
class Machine:
    """One namespace. number: from 0. name: of the namespace."""

    number: int
    name: str

    @property
    def address(self) -> str:
        """Where the others reach it."""
        return f"10.214.77.{self.number + 1}"

    def command(self, words: list[str]) -> list[str]:
        """Give the command line that runs `words` there."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *words]

    def processes(self) -> list[int]:
        """Give the processes that are there."""
        here = os.stat(f"/run/netns/{self.name}").st_ino
        found: list[int] = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == here:
                    found.append(int(pid))
            except OSError:
                continue  # it has ended
        return found

    def kill(self) -> int:
        """Kill all that runs there; gives how many processes that were."""
        count = 0
        while found := self.processes():
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                    count += 1
                except ProcessLookupError:
                    continue
            if count > 10_000:
                raise RuntimeError(f"processes of {self.name} do not end")
        return count


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """Make machines that reach each other. Raises RuntimeError where that is not permitted."""
    switch = f"bench{os.getpid()}"
    made = [Machine(n, f"{switch}m{n}") for n in range(count)]
    names: list[str] = []
    try:
        for name in (switch, *(m.name for m in made)):
            _ip("netns", "add", name)
            names.append(name)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for machine in made:
            port, name = f"p{machine.number}", machine.name
            _ip("link", "add", port, "netns", switch, "type", "veth",
                "peer", "name", CABLE, "netns", name)  # fmt: skip
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{machine.address}/24", "dev", CABLE)
            _ip("-n", name, "link", "set", CABLE, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in names:
            _ip("netns", "del", name)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
