"""A scripted system on a virtual clock: processes, their numbers, signals, descriptors, and epoll.

The clock jumps to what comes next. Events are calls at a time; between two of them runs whoever has
called into the system. Numbers of processes are used again soon, often by strangers. A signal by
number that reaches a stranger, or a number that is nobody's any more, is a fault.
"""

import errno
import heapq
import itertools
import os
import select
import signal
from types import SimpleNamespace

LAUNCHER, INIT = 1000, 1
SECOND = 1_000_000_000
HUNDREDTH = SECOND // 100  # in which /proc tells when a process began
TICK = 1_000  # nanoseconds, for each look at the clock
FIRST_FD = 1 << 20


class Process:
    """One process. kill: how it ends at SIGKILL, in seconds; None: it does not.

    took: what it does at another signal. sent: the signals that reached it, and when.
    """

    def __init__(self, pid, parent, now, *, mark=True, kill=0.0, dies_with_parent=False):
        self.pid, self.parent, self.group, self.began = pid, parent, pid, now
        self.mark, self.kill, self.dies_with_parent = mark, kill, dies_with_parent
        self.state = "alive"  # then "dying", "zombie", "reaped"
        self.status = 0
        self.ended_at = self.zombie_at = None
        self.lived_at = 0  # when it was last looked whether it lives, and it did
        self.sent = []
        self.late = False  # a signal came when it was about to end
        self.stopped = False  # by SIGSTOP
        self.offers = self.takes_user_signals = False  # it has handlers: for stacks, for SIGUSR1
        self.orphaned = False
        self.on_signal = lambda number: None
        self.on_dying = lambda: None
        self.on_zombie = lambda: None
        self.on_child = lambda: None  # a child of it has ended

    @property
    def start(self):
        return self.began // HUNDREDTH


class File:
    """What a descriptor stands for: `since` is when it became readable, None while it is not."""

    def __init__(self, kernel, kind):
        self.kernel, self.kind, self.since, self.data = kernel, kind, None, []
        self.fd = kernel.open(self)

    def rouse(self):
        if self.since is None:
            self.since = next(self.kernel.order)

    def calm(self):
        self.since = None

    def look(self):
        return self.since


class Epoll(File):
    """An epoll: level-triggered, in the order in which descriptors became ready."""

    def __init__(self, kernel):
        super().__init__(kernel, "epoll")
        self.members = {}

    def fileno(self):
        return self.fd

    def register(self, fd, mask=select.EPOLLIN):
        if fd not in self.kernel.files or fd in self.members:
            raise OSError(errno.EBADF, f"register {fd}")
        self.members[fd] = mask

    def modify(self, fd, mask):
        self.members[fd] = mask

    def unregister(self, fd):
        if self.members.pop(fd, None) is None or fd not in self.kernel.files:
            raise OSError(errno.EBADF, f"unregister {fd}")

    def look(self):
        found = [s for fd in self.members if (s := self.kernel.files[fd].look()) is not None]
        return min(found, default=None)

    def _ready(self):
        found = [(s, fd) for fd in self.members if (s := self.kernel.files[fd].look()) is not None]
        return [(fd, select.EPOLLIN) for _, fd in sorted(found)]

    def poll(self, timeout=None):
        kernel = self.kernel
        kernel.catch_up()
        if timeout != 0:
            until = None if timeout is None or timeout < 0 else kernel.now + int(timeout * SECOND)
            kernel.sleep(until, lambda: self.look() is not None)
        return self._ready()

    def close(self):
        self.kernel.close(self.fd)


class Kernel:
    """The system of one simulation. chance: a `random.Random`."""

    def __init__(self, chance):
        self.chance, self.now = chance, 1000 * SECOND
        self.order = itertools.count()
        self.files = {}
        self.table = {}  # pid -> process, until it is reaped
        self.ours = []  # all that ever belonged to the group
        self.by = LAUNCHER  # who runs
        self.events = 0
        self._fds = itertools.count(FIRST_FD)
        self._due = []
        self._numbers = itertools.count()
        self._busy = False
        self._pids = itertools.count(2000)
        self._freed = {}  # pid -> when the process began that had it

    # -- the clock

    def at(self, seconds, call):
        """Have something happen in so many seconds."""
        when = self.now + int(seconds * SECOND)
        heapq.heappush(self._due, (when, next(self._numbers), call))

    def tick(self):
        self.now += TICK
        return self.now

    def catch_up(self):
        """Let happen what is due, unless something that happens has called."""
        while not self._busy and self._due and self._due[0][0] <= self.now:
            self._one()

    def _one(self):
        when, _, call = heapq.heappop(self._due)
        self.now = max(self.now, when)
        self.events += 1
        assert self.events < 200_000, "it does not end"
        self._busy, by = True, self.by
        try:
            call()
        finally:
            self._busy, self.by = False, by

    def sleep(self, until, awake):
        """Let time pass for who calls, until it is awake or the time has come."""
        while not awake():
            if self._due and (until is None or self._due[0][0] <= until):
                self._one()
                continue
            assert until is not None, "nothing will happen any more"
            self.now = max(self.now, until)
            break
        if self.chance.random() < 0.2:  # it has to wait for a processor
            self.now += int(self.chance.choice((0.00005, 0.001, 0.02)) * SECOND)
        self.catch_up()

    def clock(self):
        """What stands for the module `time`."""
        return SimpleNamespace(
            monotonic=lambda: self.tick() / SECOND,
            monotonic_ns=self.tick,
            process_time=lambda: 0.0,
            time=lambda: 1e9 + self.tick() / SECOND,
            sleep=lambda seconds: self.sleep(self.now + int(seconds * SECOND), lambda: False),
        )

    # -- descriptors

    def open(self, file):
        fd = next(self._fds)
        self.files[fd] = file
        return fd

    def close(self, fd):
        assert fd in self.files, f"descriptor {fd} is closed twice"
        del self.files[fd]

    def pidfd(self, process):
        file = File(self, "pidfd")
        file.process = process
        file.look = lambda: process.zombie_at
        return file.fd

    # -- processes

    def make(self, parent, **how):
        taken = {p.pid for p in self.table.values()} | {p.group for p in self.table.values()}
        again = [pid for pid in self._freed if pid not in taken and self._may_come_again(pid)]
        if again and self.chance.random() < 0.6:
            pid = self.chance.choice(again)
            del self._freed[pid]
        else:
            pid = next(self._pids)
        made = self.table[pid] = Process(pid, parent, self.tick(), **how)
        if made.mark:
            self.ours.append(made)
        return made

    def end(self, process, status, *, after=0.0):
        """Have a process end; its descriptors are closed first, then it is a zombie."""
        if process.state != "alive":
            return
        process.state, process.status, process.ended_at = "dying", status, self.tick()
        closing = self.chance.choice((0.0, 0.0002, 0.002))
        self.at(after + closing, process.on_dying)
        going = self.chance.choice((0.0, 0.0002, 0.004))
        self.at(after + closing + going, lambda: self._zombie(process))

    def _zombie(self, process):
        process.state, process.zombie_at = "zombie", next(self.order)
        process.dead_at = self.now
        process.on_zombie()
        above = self.table.get(process.parent)
        for each in self.below(process.pid):
            each.parent = process.parent if above is not None else INIT
            if each.dies_with_parent:
                each.orphaned = True
                self.at(self.chance.choice((0.0, 0.001)), lambda e=each: self.deliver(e, 9))
            if each.state == "zombie":
                self._tell_parent(each)
        self._tell_parent(process)

    def _tell_parent(self, process):
        above = self.table.get(process.parent)
        if above is None or above.state != "alive":
            if process.parent != LAUNCHER:
                self.reap(process)
        else:
            above.on_child()

    def below(self, pid):
        return [p for p in self.table.values() if p.parent == pid]

    def reap(self, process):
        if process.state == "reaped":
            return
        assert process.state == "zombie", process.state
        process.state = "reaped"
        del self.table[process.pid]
        self._freed[process.pid] = process.start
        if self.chance.random() < 0.5:
            self.at(self.chance.choice((0.0, 0.001, 0.5)), lambda: self._stranger(process.pid))

    def _may_come_again(self, pid):
        """Whether a number may be used again: Linux uses all others first, which takes long."""
        return self._freed[pid] != self.now // HUNDREDTH

    def _stranger(self, pid):
        taken = {p.pid for p in self.table.values()} | {p.group for p in self.table.values()}
        if pid in self._freed and pid not in taken and self._may_come_again(pid):
            del self._freed[pid]
            self.table[pid] = Process(pid, INIT, self.tick(), mark=False)

    # -- signals

    def deliver(self, process, number):
        """Let a signal reach a process."""
        assert process.mark, f"signal {number} to a stranger, {process.pid}, by {self.by}"
        if process.state != "alive" or number == 0:
            process.late = process.late or bool(number)
            return
        process.sent.append((number, self.now))
        if number in (signal.SIGSTOP, signal.SIGCONT):
            process.stopped = number == signal.SIGSTOP
        elif number == signal.SIGKILL:
            if process.kill is not None:
                self.at(process.kill, lambda: self.end(process, 9))
        else:
            process.on_signal(number)

    def send(self, pid, number):
        """kill(2)."""
        self.catch_up()
        assert pid in self.table, f"signal {number} to {pid}, which is nobody's, by {self.by}"
        self.deliver(self.table[pid], number)

    def send_group(self, group, number):
        """killpg(2)."""
        self.catch_up()
        members = [p for p in self.table.values() if p.group == group]
        if not members:
            assert group in self.table, f"signal {number} to group {group}, which is nobody's"
            raise ProcessLookupError(errno.ESRCH, "no such process group")
        for each in members:
            self.deliver(each, number)

    def send_by_fd(self, fd, number, _info=None, _flags=0):
        """pidfd_send_signal(2)."""
        self.catch_up()
        process = self.files[fd].process
        if process.state == "reaped":
            raise ProcessLookupError(errno.ESRCH, "no such process")
        self.deliver(process, number)

    def is_dying(self, pid):
        self.catch_up()
        process = self.table.get(pid)
        return process is None or process.state != "alive"

    def caught_alive(self, pid):
        """Give the signals that one handles, -1 if it is dying; note who was seen to live."""
        if self.is_dying(pid):
            return -1
        self.table[pid].lived_at = self.now
        return (1 << 31) - 1

    def status_of_zombie(self, pid):
        self.catch_up()
        process = self.table.get(pid)
        if process is None or process.state != "zombie":
            return None
        return process.status, 0.01

    # -- what the modules of the product get in place of the real ones

    def os(self):
        return SimpleNamespace(
            close=self.close,
            eventfd=lambda *_: File(self, "eventfd").fd,
            eventfd_write=lambda fd, _: self.files[fd].rouse(),
            eventfd_read=lambda fd: self.files[fd].calm(),
            EFD_NONBLOCK=0,
            EFD_CLOEXEC=0,
            WNOHANG=os.WNOHANG,
            kill=self.send,
            killpg=self.send_group,
            getpgrp=lambda: self.by,
            getpgid=lambda pid: self.table[pid].group,
            getsid=lambda pid: self.table[pid].group,
            getpid=lambda: LAUNCHER,
            wait4=self.wait4,
        )

    def wait4(self, *_):
        children = self.below(self.by)
        if not children:
            raise ChildProcessError(errno.ECHILD, "no child processes")
        for each in children:
            if each.state == "zombie":
                self.reap(each)
                usage = SimpleNamespace(ru_utime=0.01, ru_stime=0.0, ru_maxrss=1000)
                return each.pid, each.status, usage
        return 0, 0, None

    def select(self):
        return SimpleNamespace(
            epoll=lambda: Epoll(self), EPOLLIN=select.EPOLLIN, EPOLLOUT=select.EPOLLOUT
        )

    def signals(self):
        names = {n: getattr(signal, n) for n in dir(signal) if n.startswith("SIG")}
        return SimpleNamespace(**names, pidfd_send_signal=self.send_by_fd)
