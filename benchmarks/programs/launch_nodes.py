"""Drive a job on simulated nodes until it has failed: launch_nodes.py NODES

Prints the seconds until all other nodes are told, and the most MiB of this process, as JSON. The
nodes are a process of its own, which runs nothing (launch_nodes.py NODES simulate): when all ranks
have "started", rank 0 "fails".
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import procession
from procession.engines.contract import EngineEvent, NodeCommand, take_invitation
from procession.engines.link import NodeLink
from procession.engines.plain import Fields, plain_group, plain_rank
from procession.engines.wire import Message
from procession.system.eventloop import EventLoop
from procession.values.errors import Exit, GroupEnd, Outcome, RankEnd

RANKS = 8  # of a node
HELLO = {"version": procession.__version__, "python": "3.11", "interface": ""}
ENDED: Fields = {"attempt": 0, "stacks": [], "told": {}, "looked": None}
REST = 1.0  # seconds from the last start to the failure


class Simulated:
    """An engine."""

    name = "simulated"

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def check(self) -> None: ...

    def replace(self, slot: int) -> None: ...

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        self.nodes = subprocess.Popen(
            [sys.executable, __file__, str(self.slots), "simulate"],
            env={**os.environ, **command.env},
            stdout=subprocess.PIPE,
        )

    def kill(self) -> None:
        self.nodes.kill()

    def close(self) -> None:
        self.seconds = float(self.nodes.communicate()[0])


def simulate(count: int) -> None:
    """Be all nodes, in their first and only attempt."""
    invitation, loop, begun = take_invitation(os.environ), EventLoop(), time.monotonic_ns()
    cause = RankEnd(0, 1, Outcome.EXITED, Exit(1), started_at=begun, happened_at=begun)
    killed = cause.__replace__(outcome=Outcome.SIGNALLED, exit=Exit(None, 15))
    links: list[NodeLink] = []
    heard, moments = Counter[str](), dict[str, float]()

    def take(slot: int, message: Message) -> None:
        """Take what the driver says to a node."""
        kind = message.kind
        heard[kind] += 1
        if kind == "beat":
            pulse = {"at": message.fields["at"], "own": time.monotonic_ns(), "active": 0}
            links[slot].send("pulse", pulse)
        elif kind == "meet":
            links[slot].send("met", {"attempt": 0, "address": "127.0.0.1", "port": 29999})
        elif kind == "launch":
            links[slot].send("ready", {"attempt": 0})
            if heard[kind] == count:
                loop.after("failure", REST, fail)
        elif kind == "stop" and heard[kind] == count - 1:
            moments["told"] = time.monotonic()
            end(links[0], "FAILED", cause)
            for link in links[1:]:
                end(link, "STOPPED")
        elif kind == "bye":
            links[slot].close()

    def fail() -> None:
        moments["failed"] = time.monotonic()
        links[0].send("failed", {"attempt": 0, "end": plain_rank(cause)})

    def end(link: NodeLink, state: str, *failures: RankEnd) -> None:
        ended = tuple(killed.__replace__(rank=k) for k in range(len(failures), RANKS))
        told = {"end": plain_group(GroupEnd("nodes", RANKS, failures=failures, ended=ended))}
        link.send("ended", {**ENDED, **told, "state": state})

    for slot in range(count):
        sock, heed = socket.create_connection(invitation.at[-1]), partial(take, slot)
        links.append(NodeLink(loop, sock, invitation.key, "agent", heed, sys.exit))
        links[slot].send("hello", {**HELLO, "slot": slot, "host": f"n{slot}", "pid": slot})
    while heard["bye"] < count:
        loop.turn()
    print(moments["told"] - moments["failed"])


def drive(nodes: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (nodes + 256, nodes + 256))
    engine = Simulated(nodes)
    try:
        procession.start_on(engine, ["/bin/true"], nproc=RANKS).wait()
    except procession.GroupFailed as e:
        assert (e.cause.rank, len(e.end.ended)) == (0, nodes * RANKS - 1)
    print(json.dumps([engine.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


if __name__ == "__main__":
    (simulate if sys.argv[2:] else drive)(int(sys.argv[1]))
