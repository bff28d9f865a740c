"""Many agents of a job in one process, without ranks: they answer a driver at once.

stub_agents.py NPROC, and on standard input, a line each, as JSON:
    {"at": [host, port], "key": hex, "slots": [...]}    connect, and say hello
    {"fail": slot}                                      tell that a rank failed
    {"log": [lines, bytes of a line, lines of a block]} show so much, each
Prints, when all have been sent away, when what came: {"stop": [first, last], ...}, "failed": sent.
"""

import json
import os
import resource
import select
import socket
import sys
import time
from collections import deque

from procession import __version__
from procession.engines.plain import plain_group, plain_rank
from procession.engines.wire import Wire
from procession.explain.stacks.merge import said_of
from procession.explain.stacks.text import Stack
from procession.values.errors import GroupEnd, Outcome, RankEnd
from procession.values.exit import Exit

CREDIT = 64 << 10  # as an agent's
BLOCK = 1 << 18
LIBRARY = "/opt/venv/lib/python3.12/site-packages/torch"
FRAMES = (
    (f"{LIBRARY}/distributed/distributed_c10d.py", 2810, "all_reduce"),
    (f"{LIBRARY}/distributed/c10d_logger.py", 81, "wrapper"),
    *((f"{LIBRARY}/nn/parallel/distributed.py", 1600 + k, f"_step_{k}") for k in range(6)),
    ("/home/somebody/work/train.py", 88, "train"),
    ("/home/somebody/work/train.py", 131, "main"),
    ("/home/somebody/work/train.py", 140, "<module>"),
)
DUMP = "".join(f'  File "{file}", line {line} in {name}\n' for file, line, name in FRAMES)


def ended(nproc, failed):
    """Give how the ranks of a node ended: one failed by itself, or none."""
    now = time.monotonic_ns()
    common = {"pid": 4711, "started_at": now, "happened_at": now, "seconds": 3600.0}
    common |= {"peak_memory": 9 << 30, "cpu_seconds": 3601.0}
    logs = {"stdout_log": "/scratch/run/0/stdout.log", "stderr_log": "/scratch/run/0/stderr.log"}
    cause = RankEnd(
        rank=3,
        outcome=Outcome.RAISED,
        exit=Exit(code=1),
        type_name="RuntimeError",
        message="it does not converge",
        traceback="Traceback (most recent call last):\n" + DUMP,
        stderr_tail=("a line of a warning that was printed before",) * 20,
        **common,
        **logs,
    )
    others = tuple(
        RankEnd(rank=r, outcome=Outcome.SIGNALLED, exit=Exit(signal=15), sent=(15,), **common)
        for r in range(nproc)
        if not failed or r != cause.rank
    )
    group = GroupEnd("train.py", nproc, failures=(cause,) if failed else (), ended=others)
    return plain_group(group), plain_rank(cause)


STACK = Stack(0, 4711, "", "S", FRAMES)


def stacks(first, nproc):
    """Give where the ranks of a node were, as an agent tells it."""
    return [{"said": said_of(STACK), "ranks": list(range(first, first + nproc))}]


class Stub:
    """One agent."""

    def __init__(self, all_, slot, at, key):
        self.all, self.slot = all_, slot
        self.wire = Wire(key, "agent")
        self.socket = socket.create_connection(at)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.unsent = bytearray(self.wire.opening)
        self.greeted = self.failed = False
        self.attempt = 0
        self.credit, self.blocks, self.block = CREDIT, 0, b""
        self.flush()

    def send(self, kind, fields, blob=b""):
        self.unsent += self.wire.pack(kind, fields, blob)
        self.flush()

    def flush(self):
        try:
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            pass
        self.all.want_write(self, bool(self.unsent))

    def look(self):
        if self.unsent:
            self.flush()
        try:
            data = self.socket.recv(BLOCK)
        except BlockingIOError:
            return
        if not data:
            self.all.close(self)
            return
        messages = self.wire.feed(data)
        if not self.greeted and self.wire.ready:
            self.greeted = True
            told = {"slot": self.slot, "host": f"node{self.slot:05}", "pid": os.getpid()}
            self.send("hello", {**told, "version": __version__, "python": "3.12.0"})
        for message in messages:
            if self.socket.fileno() >= 0:
                self.take(message.kind, message.fields)

    def take(self, kind, fields):
        self.all.note(kind)
        if kind == "beat":
            now = time.monotonic_ns()
            self.send("pulse", {"at": fields["at"], "own": now, "active": now})
        elif kind == "meet":
            met = {"attempt": fields["attempt"], "address": "10.0.0.1", "port": 29500}
            self.send("met", met)
        elif kind == "launch":
            self.attempt = fields["attempt"]
            self.send("ready", {"attempt": self.attempt})
        elif kind == "stop":
            self.all.ending.append((self, bool(fields["failed"])))
        elif kind == "credit":
            self.credit += fields["bytes"]
            self.show()
        elif kind == "bye":
            self.all.close(self)

    def fail(self):
        self.failed = True
        self.all.note("failed")
        self.send("failed", {"attempt": self.attempt, "end": self.all.cause})
        self.all.ending.append((self, True))

    def end(self, seen):
        nproc, told = self.all.nproc, {}
        if self.failed:
            told = {"3": {"kind": "raised", "type": "RuntimeError", "traceback": DUMP}}
        self.send(
            "ended",
            {
                "attempt": self.attempt,
                "state": "FAILED" if self.failed else "STOPPED",
                "end": self.all.bad if self.failed else self.all.good,
                "stacks": stacks(self.slot * nproc, nproc) if seen else [],
                "told": told,
            },
        )

    def log(self, lines, size, per):
        self.block = b"".join(b"x" * (size - 1) + b"\n" for _ in range(per))
        self.blocks = lines // per
        self.show()

    def show(self):
        while self.blocks and self.credit > 0:
            self.blocks -= 1
            self.credit -= len(self.block)
            self.send("log", {"stream": 1}, self.block)


class All:
    """All agents of this process."""

    def __init__(self, nproc):
        self.nproc = nproc
        self.good, self.cause = ended(nproc, failed=False)
        self.bad, _ = ended(nproc, failed=True)
        self.stubs, self.slots, self.writing = {}, {}, set()
        self.times = {}
        self.ending = deque()  # whose end is told when nothing is to be read: each has its own CPU
        self.epoll = select.epoll()

    def note(self, kind):
        now = time.monotonic()
        self.times.setdefault(kind, [now, now])[1] = now

    def want_write(self, stub, wanted):
        fd = stub.socket.fileno()
        if wanted != (fd in self.writing) and fd in self.stubs:
            self.epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))
            (self.writing.add if wanted else self.writing.discard)(fd)

    def close(self, stub):
        self.note("closed")
        fd = stub.socket.fileno()
        if self.stubs.pop(fd, None) is not None:
            self.writing.discard(fd)
            self.epoll.unregister(fd)
            stub.socket.close()

    def obey(self, order):
        if "slots" in order:
            for slot in order["slots"]:
                stub = Stub(self, slot, tuple(order["at"]), bytes.fromhex(order["key"]))
                self.stubs[stub.socket.fileno()] = self.slots[slot] = stub
                self.epoll.register(stub.socket.fileno(), select.EPOLLIN)
                stub.flush()
        elif "fail" in order:
            self.slots[order["fail"]].fail()
        else:
            for stub in self.slots.values():
                stub.log(*order["log"])

    def run(self):
        self.epoll.register(0, select.EPOLLIN)
        orders, begun = b"", False
        while self.stubs or not begun:
            found = self.epoll.poll(0 if self.ending else None)
            if not found:
                stub, seen = self.ending.popleft()
                stub.end(seen)
            for fd, _ in found:
                if fd:
                    stub = self.stubs.get(fd)
                    if stub is not None:
                        stub.look()
                    continue
                data = os.read(0, 1 << 20)
                if not data:
                    return
                *lines, orders = (orders + data).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))
                    begun = True


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    every = All(int(sys.argv[1]))
    print("ready", flush=True)
    every.run()
    print(json.dumps(every.times))
