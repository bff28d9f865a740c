"""Machines (network namespaces) join an elastic job and leave it: procession and torchrun."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from figures import Figure, Goal
from launchers import WAYS, Bench, Line, Node, all_ended, kill, network
from measure import until
from script import Plan

# The shortest last call: torchrun waits as long after a loss, by default 30 s.
CONF = ("last_call_timeout=1",)
# Without it, torchrun's launchers wait 60 s for each other when a machine joins, and fail.
ENV = ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",)
LONGEST = 60.0  # seconds in which a job that lost its host works again, or its launchers end
SAMPLES_IN_QUICK = 1


class Elastic(Bench):
    """On machines that come and go."""

    @contextmanager
    def job(self, side: str, nnodes: str, count: int) -> Iterator[tuple[Path, list[Node], Line]]:
        """Have a job reduce on `count` machines. Gives its directory, the launchers, the line."""
        most = int(nnodes.partition(":")[2])
        line = Line(self.hosts[:most], nnodes, ("--max-restarts", "3"), CONF, ENV)
        at = self.plan.directory()
        with line.first(side, at, "elastic") as nodes:
            nodes.extend(line.start(side, host, at, "elastic") for host in self.hosts[1:count])

            def reduces() -> bool:
                for node in nodes:
                    if node.ended():
                        raise RuntimeError(node.output.read_text()[-2000:])
                return len(list(at.glob(f"reduces_{count}_*"))) == count

            until(reduces, "ranks that reduce")
            yield at, nodes, line

    def loss(self, side: str) -> float:
        """A machine is killed, until a rank begins on the other one."""
        with self.job(side, "1:2", 2) as (at, _, _):
            killed = time.monotonic()
            kill(self.hosts[1])
            return until(lambda: _begun(at, 1, killed), "a rank of one") - killed

    def join(self, side: str) -> float:
        """A launcher is started on a second machine, until a rank of two begins."""
        with self.job(side, "1:2", 1) as (at, nodes, line):
            begin = time.monotonic()
            nodes.append(line.start(side, self.hosts[1], at, "elastic"))
            return until(lambda: _begun(at, 2, begin), "a rank of two") - begin

    def host_loss(self, side: str) -> float:
        """The machine that hosts the rendezvous is killed, of three.

        Gives the seconds until a rank begins on those that are left, 0 if none does.
        """
        with self.job(side, "2:3", 3) as (at, nodes, _):
            killed = time.monotonic()
            kill(self.hosts[0])
            with suppress(TimeoutError):
                until(lambda: _begun(at, 2, killed) or all_ended(nodes[1:]), "an outcome", LONGEST)
            return max(_begun(at, 2, killed) - killed, 0.0)


def _begun(at: Path, size: int, since: float) -> float:
    """Give when the first rank of a world of that size began, 0.0 for none after `since`."""
    times = [int(p.read_text()) / 1e9 for p in at.glob(f"world_{size}_*")]
    return min((t for t in times if t > since), default=0.0)


def measure(plan: Plan) -> list[Figure]:
    repeat = SAMPLES_IN_QUICK if plan.quick else plan.repeat
    with network(3) as hosts:
        bench = Elastic(plan, hosts)
        losses, joins = bench.both("loss", repeat), bench.both("join", repeat)
        ends = bench.both("host_loss", repeat)
    again = {s: [begun for begun in ends[s] if begun] for s in WAYS}
    lost = {s: [float(ends[s].count(0.0))] for s in WAYS}
    host = "the machine of the host is killed, of three"
    return [
        Figure("a machine is killed, until the other works again", "s", "torchrun", losses),
        Figure("a machine joins: its launcher's start to a rank of two", "s", "torchrun", joins),
        Figure(f"{host}, until a rank works again", "s", "torchrun", again),
        Figure(f"{host}: jobs lost, of {repeat}", "", "torchrun", lost, (Goal(0),)),
    ]
