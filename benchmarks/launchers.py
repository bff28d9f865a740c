"""One line on each of several machines, under procession or torchrun: launchers that run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from measure import PROCESSION, TORCHRUN, alternate, program, until
from script import Plan

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from network import Host, network  # noqa: F401 - the machines: namespaces on one switch

RANK = program("meeting_rank")
WAYS = {"ours": PROCESSION, "peer": TORCHRUN}
PORT = 29400


class Bench:
    """Machines, and what is started on them: methods that take a sample of a side."""

    def __init__(self, plan: Plan, hosts: list[Host]) -> None:
        self.plan, self.hosts = plan, hosts

    def both(self, work: str, repeat: int) -> dict[str, list[float]]:
        """Take samples of both sides by a method."""
        take = getattr(self, work)
        return alternate({side: lambda side=side: take(side) for side in WAYS}, repeat)


@dataclass
class Node:
    """A launcher that runs. ended_at: when it was seen to have ended, 0 for not yet."""

    launcher: subprocess.Popen[bytes]
    output: Path
    ended_at: float = field(default=0.0)

    def ended(self) -> bool:
        """Tell whether it has ended, and note when."""
        if not self.ended_at and self.launcher.poll() is not None:
            self.ended_at = time.monotonic()
        return bool(self.ended_at)


def all_ended(nodes: Sequence[Node]) -> bool:
    """Tell whether all have ended, and note when each did."""
    ended = [node.ended() for node in nodes]  # of each, so that none is noted late
    return all(ended)


@dataclass(frozen=True)
class Line:
    """What is typed on every machine. nnodes, words, conf: options, and what `--rdzv-conf` says.

    hosts: the first one hosts the rendezvous. env: variables.
    """

    hosts: Sequence[Host]
    nnodes: str
    words: Sequence[str] = ()
    conf: Sequence[str] = ()
    env: Sequence[str] = ()

    def start(self, side: str, host: Host, at: Path, how: str) -> Node:
        """Type it on a machine: ranks do HOW, and leave their files in `at`."""
        conf = ",".join((f"is_host={int(host == self.hosts[0])}", *self.conf))
        words = ["--nnodes", self.nnodes, "--nproc-per-node", "1", "--rdzv-id", "J",
                 "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.hosts[0].address}:{PORT}",
                 "--local-addr", host.address, "--rdzv-conf", conf, *self.words,
                 RANK, how, str(at)]  # fmt: skip
        output = at.parent / f"{at.name}_{host.number}.log"
        command = ["env", f"GLOO_SOCKET_IFNAME={host.cable}", *self.env, *WAYS[side], *words]
        with open(output, "wb") as log:
            launcher = subprocess.Popen(
                host.command(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return Node(launcher, output)

    @contextmanager
    def first(self, side: str, at: Path, how: str) -> Iterator[list[Node]]:
        """Have it run on the first machine, until that listens. Launchers that are added to the
        list are ended, too, with all that runs on the machines.
        """
        nodes = [self.start(side, self.hosts[0], at, how)]
        try:
            until(lambda: _listens(nodes[0]), "the host of the rendezvous")
            yield nodes
        finally:
            for host in self.hosts:
                kill(host)
            for node in nodes:
                node.launcher.wait()


def kill(host: Host) -> None:
    """Kill all that runs on a machine."""

    def runs_there(pid: int) -> bool:
        with suppress(OSError):  # it has ended, or is nobody's to look at
            return os.path.samefile(f"/proc/{pid}/ns/net", f"/run/netns/{host.name}")
        return False

    while pids := list(filter(runs_there, psutil.pids())):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _listens(node: Node) -> bool:
    """Tell whether a launcher listens at the agreed port, without a connection to it."""
    if node.ended():
        raise RuntimeError(node.output.read_text()[-2000:])
    sockets = Path(f"/proc/{node.launcher.pid}/net")
    lines = [s for file in sockets.glob("tcp*") for s in file.read_text().splitlines()]
    return any(f":{PORT:04X} " in s.split(" 0A ")[0] for s in lines if " 0A " in s)
