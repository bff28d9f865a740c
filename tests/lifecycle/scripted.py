"""A scripted forkserver and scripted ranks, below a real supervisor.

The forkserver obeys as the real one does, step by step, with the real list of its children. It may
be slow, stop between two steps and go on later, or be killed at any of them.
"""

import signal
from collections import deque

from seams.forkserver import Children
from seams.prepare import Report
from seams.worker import DONE, FAILED, stackfile

from .kernel import LAUNCHER, File

RAISED = b"exception\0\0ValueError"
SILENT = (11, 6, 9, 3 << 8, 0)  # how ranks end without a word: wait statuses


class Pipe(File):
    """The launcher's end of a rank's outcome channel, and what it has read there."""

    def __init__(self, kernel):
        super().__init__(kernel, "pipe")
        self.report, self.torn, self.refused, self.modules, self.ended = None, False, "", b"", False
        self._closed = self.answered = False

    def tell(self, report):
        self.data.append(report)
        self.rouse()

    def shut(self):
        self._closed = True
        self.rouse()

    def read(self):
        self.kernel.catch_up()
        told, self.data = self.data, []
        if told:
            self.report = told[-1]
        self.ended = self._closed
        if not self._closed:
            self.calm()
        return bool(told)

    def answer(self):
        if self.fd >= 0:
            self.answered = True

    def close(self):
        if self.fd >= 0:
            self.kernel.close(self.fd)
            self.fd = -1


class Statuses:
    """The status pipes of ranks on their way to their program, in place of `Forking`."""

    def __init__(self):
        self.of = {}  # rank -> process
        self.faults = {}

    def status_of(self, rank):
        return (rank,) if rank in self.of else ()

    def read_status(self, rank):
        if self.of.pop(rank).cannot_start:
            self.faults[rank] = "start its program", 2, "No such file"
            return None
        return rank

    def fault_of(self, rank):
        return self.faults.pop(rank, None)


class Scripted:
    """A forkserver, and the launcher's end of the link to it, in place of `ForkServer`.

    plan: makes what ranks do. slow: seconds that a step may take.
    """

    def __init__(self, kernel, plan, slow):
        self.kernel, self.plan, self.slow = kernel, plan, slow
        self.process = kernel.make(LAUNCHER, kill=0.0)
        kernel.ours.remove(self.process)
        self.process.on_child = self._go
        self.process.on_zombie = self._died
        self.socket = File(kernel, "socket")
        self.pid, self.began = self.process.pid, self.process.start
        self.page, self.above = 0, ()
        self.importing, self.sharing, self.lasting, self.waiting = (), "", False, False
        self.crash = ""
        self.lost = self.silent = self._ended = False
        self.state = "S"  # "T": stopped; "t": traced; "D": frozen, also by SIGKILL
        self._inbox, self._asked, self._said, self._fds = deque(), deque(), [], []
        self._statuses = Statuses()
        self._ready = deque()  # ranks that have reached their program
        self._children = Children(self._statuses, lambda *words: self._said.append(words))
        self._turn = None
        self._killed = False
        self.kept = False  # it was stopped when it had done something, and not told of it yet
        self.started = []

    # -- what the launcher does with it

    def fileno(self):
        return self.socket.fd

    def send(self, message, fds, close):
        self.kernel.catch_up()
        if self._ended:
            self.lost = True
            return
        self._inbox.append(message)
        self._go()

    def flush(self):
        pass

    def drop_unsent(self):
        return []

    def receive(self):
        self.kernel.catch_up()
        frames, self.socket.data = self.socket.data, []
        if self._ended:
            self.lost = True
        else:
            self.socket.calm()
        return frames

    def wake(self):
        self.kernel.catch_up()
        if self.state == "T":
            self.thaw()

    def kill(self):
        self.lost = True
        self.strike()

    def ending(self, _seconds=0.0):
        return ""

    def close(self):
        pass

    # -- what happens to it

    def freeze(self, state):
        if self.process.state == "alive":
            self.state = state
            self.kept = self.kept or any(words[0] == "done" for words in self._said)

    def thaw(self):
        self.state = "S"
        if self._killed:
            self.kernel.end(self.process, 9)
        self._go()

    def strike(self):
        """Kill it."""
        self._killed = True
        if self.state != "D":
            self.kernel.end(self.process, 9)

    def _died(self):
        self._ended = True
        self.socket.rouse()

    # -- its loop

    def _go(self):
        if self._turn is None:
            self._turn = self._turns()
            self._step()

    def _step(self):
        pause = self.kernel.chance.choice((0.0, 0.00005, self.slow)) * self.kernel.chance.random()
        self.kernel.at(pause, self._on)

    def _on(self):
        if self.process.state != "alive" or self._turn is None:
            return
        if self.state != "S":
            self.kernel.at(0.01, self._on)
            return
        before, self.kernel.by = self.kernel.by, self.pid
        try:
            next(self._turn)
            self._step()
        except StopIteration:
            self._turn = None
            if self._inbox or self._asked:
                self._go()
        finally:
            self.kernel.by = before

    def _turns(self):
        """Work off what is there, with a pause between the steps; as `Server._loop` does."""
        heard, ready, woken = bool(self._inbox), len(self._ready), self._has_zombies
        yield
        for _ in range(ready):
            rank = self._ready.popleft()
            if rank in self._statuses.of:
                self._children.read_status(rank)
        if woken:  # otherwise SIGCHLD may come after the look
            self._children.reap()
            yield
        for _ in range(len(self._inbox) if heard else 0):
            self._obey(self._inbox.popleft())
            yield
        if self._asked:
            self._fork(*self._asked.popleft())
            yield
        if self._said:
            said, self._said = self._said, []
            fds, self._fds = self._fds, []
            self.socket.data.append((said, fds))
            self.socket.rouse()
        if self._ready or self._has_zombies:
            self.kernel.at(0.0, self._go)

    @property
    def _has_zombies(self):
        return any(p.state == "zombie" for p in self.kernel.below(self.pid))

    def _report(self, *words):
        self._said.append(words)

    def _obey(self, message):
        kind = message[0]
        if kind == "do":
            _, which, by, wish = message
            late = 0 < by < self.kernel.tick()
            if not late:
                self._obey(wish)
            self._report("late" if late else "done", which)
        elif kind == "begin":
            self._children.begin()
        elif kind == "spawn":
            self._asked += message[1]
        elif kind == "cancel":
            ranks = [rank for rank, _ in self._asked]
            self._asked.clear()
            self._report("cancelled", ranks, self.kernel.tick())
        elif kind == "signal":
            self._children.signal_ranks(message[1], message[2])
        elif kind == "sweep":
            self._children.sweep(message[1], message[2])
        elif kind == "clean":
            self._children.clean(message[1])

    def _fork(self, rank, pipe):
        kernel = self.kernel
        self._children.make_way(rank)
        at = kernel.tick()
        process = kernel.make(self.pid, kill=0.0, dies_with_parent=True)
        process.group = self.pid
        self.plan(self, process, rank, pipe)
        self._children.add(rank, process.pid, at)
        self._statuses.of[rank] = process
        fd = -1 if kernel.chance.random() < 0.02 else kernel.pidfd(process)
        process.has_pidfd = fd >= 0
        if fd >= 0:
            self._fds.append(fd)
        self._report("spawned", rank, process.pid, at, fd)

    def reached(self, rank):
        """Take note that a rank has reached its program."""
        self._ready.append(rank)
        self._go()


class Ranks:
    """Makes what ranks do, and keeps what truly happened to them.

    all: every process that was a rank, in order; by_rank: the latest one of each.
    """

    def __init__(self, kernel, stop_signal):
        self.kernel, self.stop_signal = kernel, stop_signal
        self.all, self.by_rank = [], {}
        self.stuck = False
        self.shown = None  # set by `Shown`

    def __call__(self, server, process, rank, pipe):
        kernel, chance = self.kernel, self.kernel.chance
        before = self.by_rank.get(rank)
        if before is not None:
            assert before.state in ("zombie", "reaped"), f"rank {rank} is there twice"
        process.rank, process.pipe, process.plan = rank, pipe, 0
        process.failed_at = process.finished_at = process.signalled_at = None
        process.silent, process.closed_at = False, None
        process.hung_at = process.beat = None
        process.dump, process.place = b"", 0
        process.kill = chance.choice((0.0, 0.001, 0.05))
        if chance.random() < 0.003:
            process.kill, self.stuck = None, True
        process.stops = chance.choice((0.0, 0.001, 0.3, None))
        process.says = chance.random() < 0.3
        process.cannot_start = chance.random() < 0.01
        process.fate = chance.choice(
            ("finishes",) * 6 + ("raises",) * 2 + ("dies",) * 2 + ("lives",) * 3
        )
        process.on_signal = lambda number: self._signalled(process, number)
        process.on_dying = lambda: self._closes(process)
        self.all.append(process)
        self.by_rank[rank] = process
        kernel.at(0.0001, lambda: self._lead(process))
        ready = chance.choice((0.0002, 0.01, 0.3))
        if chance.random() < 0.01:
            return  # it never gets there
        self.later(process, ready, lambda: self._begin(server, process))

    def _lead(self, process):
        if process.state == "alive":
            process.group = process.pid

    def later(self, process, seconds, call):
        """Have a process do something, unless it has another plan by then; not while stopped."""
        plan = process.plan

        def due():
            if process.state != "alive" or process.plan != plan:
                return
            if process.stopped:
                self.kernel.at(0.01, due)
            else:
                call()

        self.kernel.at(seconds, due)

    def _begin(self, server, process):
        chance = self.kernel.chance
        if process.cannot_start:
            process.failed_at = self.kernel.tick()
            self.kernel.end(process, 127 << 8)
            return
        server.reached(process.rank)
        if self.shown is not None:
            self.shown.begin(process)
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            self._daemon(process)
        after = chance.choice((0.0, 0.001, 0.01, 0.5, 20.0)) * chance.uniform(0.5, 1.5)
        if process.fate != "lives":
            self.later(process, after, lambda: self._end(process))

    def _daemon(self, process):
        child = self.kernel.make(process.pid, kill=0.0)
        if self.kernel.chance.random() < 0.5:
            child.group = process.group
        stops = self.kernel.chance.choice((0.0, 0.3, None))
        if stops is not None:
            child.on_signal = lambda number: (
                number == self.stop_signal
                and self.kernel.at(stops, lambda: self.kernel.end(child, number))
            )

    def _end(self, process):
        kernel, chance = self.kernel, self.kernel.chance
        now = kernel.tick()
        exits = chance.choice((0.0, 0.001, 0.1, 1.0))
        if process.fate == "dies":
            process.failed_at, process.silent = now, True
            kernel.end(process, chance.choice(SILENT))
        elif process.fate == "finishes":
            process.finished_at = now
            process.pipe.tell(Report(DONE, now, bytearray()))
            self.later(process, exits, lambda: kernel.end(process, 0))
        else:
            self._raise(process, exits)

    def _raise(self, process, exits):
        now = self.kernel.tick()
        if self.ended_by_us(process) is None:
            process.failed_at = now
        process.pipe.tell(Report(FAILED, now, bytearray(RAISED)))
        process.plan += 1
        self.later(process, exits, lambda: self.kernel.end(process, 1 << 8))

    def _closes(self, process):
        """Close its descriptors: the pipe, and then connections to others, which may fail."""
        process.pipe.shut()
        process.closed_at = self.kernel.now
        if process.failed_at is None or self.kernel.chance.random() < 0.5:
            return
        for other in self.by_rank.values():
            if other.state == "alive":
                seconds = self.kernel.chance.choice((0.0001, 0.002))
                self.later(other, seconds, lambda o=other: self._notices(o))

    def _notices(self, process):
        if process.failed_at is None and process.finished_at is None:
            self._raise(process, 0.001)

    def _signalled(self, process, number):
        if number == stackfile.SIGNAL:
            self.shown.signalled(process)
        elif number == signal.SIGUSR1 and not process.takes_user_signals:
            if process.failed_at is None and self.ended_by_us(process) is None:
                process.failed_at, process.silent = self.kernel.tick(), True
            self.kernel.end(process, number)
        if number != self.stop_signal:
            return
        if process.signalled_at is None:
            process.signalled_at = self.kernel.now
        if process.stops is None:
            return
        process.plan += 1
        self.later(process, process.stops, lambda: self._obey(process, number))

    def _obey(self, process, number):
        if process.says and process.failed_at is None and process.finished_at is None:
            process.pipe.tell(Report(FAILED, self.kernel.tick(), bytearray(RAISED)))
        self.kernel.end(process, number)

    def ended_by_us(self, process):
        """Give when the first signal of the group reached it, None if none did."""
        sent = [at for number, at in process.sent if number in (self.stop_signal, 9)]
        return min(sent, default=None)
