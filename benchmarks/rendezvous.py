"""One line on each of two machines (network namespaces): procession and torchrun, with c10d."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import Figure, Goal
from launchers import Bench, Line, Node, all_ended, kill, network
from measure import until
from script import Plan

BLAMED = {
    "ours": re.compile(r"failed: rank (\d+) of 2"),
    "peer": re.compile(r"Root Cause.*?rank\s*: (\d+)", re.DOTALL),
}
CAUSES, QUICK_CAUSES = 20, 2
TRIES = 5


class Rendezvous(Bench):
    """On two machines."""

    @contextmanager
    def job(self, side: str, how: str) -> Iterator[tuple[Path, list[Node], float]]:
        """Have the line run on both, and reduce if it is to: its directory, the launchers, when the
        last was started.
        """
        at = self.plan.directory()
        line = Line(self.hosts, "2")
        with line.first(side, at, how) as nodes:
            last = time.monotonic()
            nodes.append(line.start(side, self.hosts[1], at, how))
            if how == "reduce":
                until(lambda: len(list(at.glob("begun_*"))) == 2, "ranks that reduce")
            yield at, nodes, last
            until(lambda: all_ended(nodes), "the end of all launchers")

    def first_line(self, side: str) -> float:
        with self.job(side, "first") as (at, _, last):
            until(lambda: list(at.glob("begun_*")), "a rank")
            first = min(int(p.read_text()) for p in at.glob("begun_*"))
        return first / 1e9 - last

    def failure(self, side: str) -> float:
        with self.job(side, "reduce") as (at, nodes, _):
            (at / "new_go").write_text("fail")
            (at / "new_go").rename(at / "go")
        return max(node.ended_at for node in nodes) - int((at / "died").read_text()) / 1e9

    def loss(self, side: str) -> float:
        with self.job(side, "reduce") as (_, nodes, _):
            killed = time.monotonic()
            kill(self.hosts[1])
        return nodes[0].ended_at - killed

    def wrong_causes(self, side: str) -> float:
        """Give how many of the two launchers do not blame the rank that failed first.

        A rank that got no processor when it was to fail makes another sample necessary.
        """
        for _ in range(TRIES):
            with self.job(side, "pair") as (at, nodes, _):
                pass
            noted = [int(p.read_text()) for p in sorted(at.glob("failed_*"))]
            if len(noted) == 2 and 2e6 < noted[0] - noted[1] < 10e6:
                break
        else:
            raise RuntimeError("this machine is too busy to have two failures 5 ms apart")
        blamed = [BLAMED[side].search(node.output.read_text()) for node in nodes]
        return float(sum(found is None or found[1] != "1" for found in blamed))


def measure(plan: Plan) -> list[Figure]:
    with network(2) as hosts:
        bench = Rendezvous(plan, hosts)
        firsts = bench.both("first_line", plan.repeat)
        failures = bench.both("failure", plan.repeat)
        losses = bench.both("loss", plan.repeat)
        causes = QUICK_CAUSES if plan.quick else CAUSES
        wrong = {s: [sum(each)] for s, each in bench.both("wrong_causes", causes).items()}
    return [
        Figure("last machine's start to a rank's first line", "s", "torchrun", firsts),
        Figure("a rank fails, until all launchers have ended", "s", "torchrun", failures),
        Figure("a machine is killed, until the other launcher has ended", "s", "torchrun", losses),
        Figure(
            f"wrong causes, of {2 * causes} that launchers print", "", "torchrun", wrong, (Goal(0),)
        ),
    ]
