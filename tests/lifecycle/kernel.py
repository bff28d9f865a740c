"""A fake kernel on a virtual clock: processes, signals, descriptors, and epoll, for one agent.

The clock jumps to what comes next. What happens are calls at a time; they run whenever the agent
looks at the clock, waits, or asks for something. Numbers of processes are used again at once, often
by strangers. A signal to a stranger, or to a number that is nobody's, is a fault.
"""

import errno
import heapq
import itertools
import os
import select
import signal
import struct
from _socket import SCM_RIGHTS, SOL_SOCKET
from collections import deque
from types import SimpleNamespace

AGENT, SECOND, TICK = 1000, 1_000_000_000, 1_000
FIRST_FD = 1 << 20
ROOM = 200_000  # bytes that a socket takes, until they are read


class File:
    """What a descriptor stands for. peer: where what is sent to it arrives, of a socket."""

    def __init__(self, kernel, kind):
        self.kernel, self.kind, self.peer = kernel, kind, None
        self.parts, self.ended, self.size, self.since = deque(), False, 0, 0
        self.heard = self.drained = self.answered = lambda: None
        self.fd = kernel.open(self)

    @property
    def ready(self):
        return self.ended or bool(self.parts)

    def push(self, data=b"", fds=()):
        """Let something come, or (nothing) the end."""
        if not self.ready:
            self.since = next(self.kernel.order)
        if data:
            self.parts.append((memoryview(data), fds))
            self.size += len(data)
        else:
            self.ended = True
        self.heard()

    def take(self, size):
        data, fds = bytearray(), []
        while self.parts and len(data) < size and not (data and self.parts[0][1]):
            part, some = self.parts.popleft()
            fds += some
            left = size - len(data)
            data += part[:left]
            if part[left:]:
                self.parts.appendleft((part[left:], ()))
        self.size -= len(data)
        if not data and not self.ended:
            raise BlockingIOError
        if not self.parts:
            self.drained()
        return bytes(data), fds

    # -- as a socket

    def fileno(self):
        return self.fd

    detach = fileno

    def setblocking(self, _):
        pass

    def recvmsg(self, size, _room, _flags):
        self.kernel.catch_up()
        data, fds = self.take(size)
        passed = [(SOL_SOCKET, SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
        return data, passed, 0, None

    def sendmsg(self, parts, passed, _flags):
        if self.peer.ended:
            raise BrokenPipeError(errno.EPIPE, "")
        if not (data := bytes(parts[0])[: ROOM - self.peer.size]):
            raise BlockingIOError
        fds = [fd for _, _, raw in passed for fd in struct.unpack(f"{len(raw) // 4}i", raw)]
        self.peer.push(data, fds)
        return len(data)

    def shutdown(self, _):
        self.answered()

    def close(self):
        self.kernel.close(self.fd)


class Epoll(File):
    """Level-triggered; what it has reported moves to the end of its list."""

    def __init__(self, kernel):
        super().__init__(kernel, "epoll")
        self.members = {}

    def register(self, fd, mask):
        assert fd not in self.members
        self.members[fd] = mask, self.kernel.files[fd]

    def modify(self, fd, mask):
        self.members[fd] = mask, self.kernel.files[fd]

    def unregister(self, fd):
        assert fd in self.kernel.files, "it was closed before"
        del self.members[fd]

    def _ready(self):
        return [
            file
            for mask, file in self.members.values()
            if file.ready or (mask & select.EPOLLOUT and file.peer.size < ROOM)
        ]

    def poll(self, timeout=None):
        kernel = self.kernel
        if timeout != 0:
            until = None if timeout is None else kernel.now + int(timeout * SECOND)
            kernel.sleep(until, self._ready)
        kernel.catch_up()
        ready = sorted(self._ready(), key=lambda file: file.since)
        for file in ready:
            file.since = next(kernel.order)
        return [(file.fd, select.EPOLLIN) for file in ready]


class Process:
    """A process. kill: seconds in which SIGKILL ends it. sent: signals to it, and when."""

    rank = attempt = None

    def __init__(self, pid, parent, group, began, *, ours=True):
        self.pid, self.parent, self.group, self.began, self.ours = pid, parent, group, began, ours
        self.state, self.status, self.ended_at, self.kill = "alive", 0, None, 0.0
        self.sent, self.stopped = [], False
        self.on_signal = lambda number: None
        self.on_end = lambda: None

    def first(self, *numbers):
        """Give when it got one of these signals first, or infinity."""
        return min((at for number, at in self.sent if number in numbers), default=float("inf"))


class Kernel:
    """The system of one simulation. chance: a `random.Random`, or what chooses as it does."""

    def __init__(self, chance):
        self.chance, self.now, self.order = chance, 1000 * SECOND, itertools.count(1)
        self.files, self.table, self.all = {}, {}, []  # `table`: by pid, until it is reaped
        self.children_end = lambda: None
        self.fork = lambda: 0
        self._fds, self._pids = itertools.count(FIRST_FD), itertools.count(2000)
        self._due, self._busy, self.steps = [], False, 0

    # -- the clock

    def at(self, seconds, call):
        heapq.heappush(self._due, (self.now + int(seconds * SECOND), next(self.order), call))

    def tick(self):
        self.now += TICK
        self.catch_up()
        return self.now

    def catch_up(self):
        """Let happen what is due, unless this is part of what happens."""
        while not self._busy and self._due and self._due[0][0] <= self.now:
            self._one()

    def _one(self):
        when, _, call = heapq.heappop(self._due)
        self.now, self.steps, self._busy = max(self.now, when), self.steps + 1, True
        assert self.steps < 50_000, "it does not end"
        try:
            call()
        finally:
            self._busy = False

    def sleep(self, until, awake):
        while not awake():
            if self._due and (until is None or self._due[0][0] <= until):
                self._one()
                continue
            assert until is not None, "nothing will happen any more"
            self.now = max(self.now, until)
            break
        self.now += self.chance.choice((0, 0, 0, 50_000, 1_000_000))  # it waits for a processor

    # -- descriptors

    def open(self, file):
        fd = next(self._fds)
        self.files[fd] = file
        return fd

    def close(self, fd):
        if fd >= FIRST_FD:
            assert fd in self.files, f"descriptor {fd} is closed twice"
            self.files.pop(fd)

    def pair(self, kind):
        ours, theirs = File(self, kind), File(self, kind)
        ours.peer, theirs.peer = theirs, ours
        self.pair_of = ours
        return ours, theirs

    def pipe(self, *_):
        written = File(self, "pipe")
        self.pipe_of = written.peer = File(self, "pipe")
        return self.pipe_of.fd, written.fd

    # -- processes

    def make(self, parent, group, *, ours=True):
        busy = {p.group for p in self.table.values()} | self.table.keys()
        free = [p.pid for p in self.all if p.pid not in busy]
        pid = free[0] if free and self.chance.choice((True, False)) else next(self._pids)
        made = self.table[pid] = Process(pid, parent, group, self.now, ours=ours)
        self.all.append(made)
        return made

    def end(self, process, status):
        """Have a process end: its descriptors are closed first, then it is a zombie."""
        if process.state != "alive":
            return
        process.state, process.status, process.ended_at = "dying", status, self.now
        self.at(self.chance.choice((0.0, 0.0002, 0.002)), lambda: self._close_of(process))

    def _close_of(self, process):
        process.on_end()
        self.at(self.chance.choice((0.0, 0.0002, 0.004)), lambda: self._zombie(process))

    def _zombie(self, process):
        process.state, process.zombie_at = "zombie", self.now
        for each in self.table.values():
            if each.parent == process.pid:
                each.parent = AGENT
        self.children_end()

    def below(self, parent):
        return [p for p in self.table.values() if p.parent == parent]

    def wait4(self, *_):
        self.catch_up()
        if not (children := self.below(AGENT)):
            raise ChildProcessError
        for each in children:
            if each.state == "zombie":
                del self.table[each.pid]
                if self.chance.choice((True, False)):
                    self.make(1, 1, ours=False)
                usage = SimpleNamespace(ru_utime=0.0, ru_stime=0.0, ru_maxrss=1000)
                return each.pid, each.status, usage
        return 0, 0, None

    # -- signals

    def deliver(self, process, number):
        assert process.ours, f"signal {number} to a stranger, {process.pid}"
        process.sent.append((number, self.now))
        if process.state != "alive":
            return
        if number in (signal.SIGSTOP, signal.SIGCONT):
            process.stopped = number == signal.SIGSTOP
        elif number == signal.SIGKILL:
            self.at(process.kill, lambda: self.end(process, number))
        else:
            process.on_signal(number)

    def send(self, pid, number):
        self.tick()
        assert pid in self.table, f"signal {number} to {pid}, which is nobody's"
        self.deliver(self.table[pid], number)

    def send_group(self, group, number):
        self.tick()
        if not (members := [p for p in self.table.values() if p.group == group]):
            assert group in self.table, f"signal {number} to group {group}, which is nobody's"
            raise ProcessLookupError
        for each in members:
            self.deliver(each, number)

    # -- what the modules of the agent get

    def os(self):
        return SimpleNamespace(
            close=self.close, eventfd=lambda *_: File(self, "eventfd").fd, EFD_NONBLOCK=0,
            EFD_CLOEXEC=0, O_NONBLOCK=0, O_CLOEXEC=0, WNOHANG=1, strerror=os.strerror,
            fork=lambda: self.fork(), pipe2=self.pipe, read=lambda fd, n: self.files[fd].take(n)[0],
            pidfd_open=lambda _: File(self, "pidfd").fd, pread=lambda _fd, n, _at: bytes(n),
            pwrite=lambda *_: None, getpid=lambda: AGENT, getpgrp=lambda: AGENT, wait4=self.wait4,
            kill=self.send, killpg=self.send_group, getpgid=lambda pid: self.table[pid].group,
            getsid=lambda pid: self.table[pid].group,
        )  # fmt: skip

    def time(self):
        return SimpleNamespace(
            monotonic=lambda: self.tick() / SECOND,
            monotonic_ns=self.tick,
            process_time=lambda: 0.0,
        )

    def select(self):
        waiting = SimpleNamespace(register=lambda *_: None)
        waiting.poll = lambda ms: self.sleep(self.now + ms * 1_000_000, lambda: False)
        return SimpleNamespace(epoll=lambda: Epoll(self), poll=lambda: waiting, POLLIN=1,
                               EPOLLIN=select.EPOLLIN, EPOLLOUT=select.EPOLLOUT)  # fmt: skip

    def signal(self):
        names = {n: int(getattr(signal, n)) for n in dir(signal) if n.startswith("SIG")}
        calls = dict.fromkeys(("signal", "getsignal", "set_wakeup_fd"), lambda *_, **__: 0)
        calls["valid_signals"] = set
        return SimpleNamespace(**{**names, **calls}, pthread_sigmask=lambda *_: set())
