"""A real supervisor over the scripted system of `kernel`, and what truly happened there.

What runs for real: the supervisor with its loop, its link to the forkserver, its deadlines, exits,
restarts and journal, the search for what is left, and the forkserver's list of its children. The
modules get scripted ones in place of `time`, `os`, `select` and `signal`. Threads of the journal
are calls on the virtual clock.
"""

import contextlib
import signal
from types import SimpleNamespace

from seams.explain import ends, taking
from seams.forkserver import children
from seams.output import activity
from seams.supervise import (
    Supervisor,
    deciding,
    exits,
    hangs,
    journal,
    lastlook,
    limits,
    link,
    ranks,
    supervisor,
)
from seams.system import Seen, eventloop, processes, remains, signals, tree
from seams.values import Hang, Logs, Restart, Stop, StopRequest, make_spec

from .kernel import INIT, LAUNCHER, SECOND, Kernel
from .scripted import Pipe, Ranks, Scripted
from .shown import Shown

ANSWER = 1.2  # seconds after which a forkserver has not answered
REAPED = 6.0  # seconds that a status is waited for, at most
START = 30.0
REAP = 5.0
LOOK_SECONDS = 0.3
PHASES = ("starting", "running", "stopping", "sweeping", "backoff")


class Errands:
    """Work that may block, one piece after the other, on the virtual clock."""

    def __init__(self, kernel, slow):
        self.kernel, self.slow = kernel, slow
        self.current, self.on_fault, self.thread = "", None, None
        self.took = 0.0
        self._queue, self._busy = [], False

    def do(self, what, call, *, always=False):
        self._queue.append((what, call))
        if not self._busy:
            self._busy = True
            self._next()
        return True

    def _next(self):
        seconds = self.slow * self.kernel.chance.choice((0.0, 0.1, 1.0))
        self.took += seconds
        self.kernel.at(seconds, self._one)

    def _one(self):
        self.current, call = self._queue.pop(0)
        call()
        self.current = ""
        if self._queue:
            self._next()
        else:
            self._busy = False

    def wait(self, what, call, seconds):
        self.do(what, call)
        return self.settle(seconds)

    def settle(self, seconds):
        until = self.kernel.now + int(seconds * SECOND)
        self.kernel.sleep(until, lambda: not self._busy)
        return not self._busy

    def end(self):
        pass

    def join(self, seconds):
        return True


class Streams:
    """No output."""

    faults = ()
    in_files = False
    shown = 0

    def together(self):
        return contextlib.nullcontext()

    def open(self, attempt, rank):
        return SimpleNamespace(drop=lambda: None)

    def drain(self, timeout):
        return True

    def finish(self, ended):
        ended()

    def log_paths(self, attempt, rank):
        return "", ""

    def stderr_tail(self, attempt, rank, *, files=True):
        return ()


class Jobs:
    """Asks the scripted forkserver for ranks, in place of `RankJobs`."""

    def __init__(self, kernel, new_server, slow, board):
        self._kernel, self._new_server = kernel, new_server
        self._request = []
        self.attempts, self.clean = 0, None
        self.resources = SimpleNamespace(
            board=board,
            run_dir=SimpleNamespace(kept=False, fault="", path="", error_file=lambda *_: ""),
            places=SimpleNamespace(over_limit=lambda *_: False),
            streams=Streams(),
            run_id="run",
            environments=["a handler"] if slow else [],
            given=lambda *_: {},
        )

    def lease(self):
        return self._new_server()

    def begin(self, server, attempt):
        self.attempts += 1
        server.send(("begin", {}), [], [])

    def spawn(self, server, attempt, rank, streams, env):
        pipe = Pipe(self._kernel)
        self._request.append((rank, pipe))
        return pipe

    def send(self, server):
        asked, self._request = self._request, []
        server.send(("spawn", asked), [], [])

    def all_sent(self, server, attempt):
        pass

    def no_fork(self):
        pass

    def close(self, server, *, clean):
        self.clean = clean


class Group:
    """One group, from its start to its end, and what truly happened.

    watched: ranks beat, hang, and are asked for stacks; signals and suspensions are asked for.
    """

    def __init__(self, chance, *, watched=True):
        self.chance, self.watched = chance, watched
        kernel = self.kernel = Kernel(chance)
        kernel.table[LAUNCHER] = SimpleNamespace(
            pid=LAUNCHER, parent=INIT, group=LAUNCHER, state="alive", mark=False,
            on_child=lambda: None, start=0, sent=[],
        )  # fmt: skip
        self.slow = chance.choice((0.0, 0.0, 0.0, 0.05, 0.5, 3.0))
        self.asks = chance.random() < 0.3
        self.errands = []
        self.servers = []
        single = chance.random() < 0.4
        self.restart = Restart(
            max=chance.choice((0, 1, 3)),
            backoff=chance.choice((0.0, 0.0, 0.2)),
            jitter=0.0,
            scope="rank" if single else "group",
        )
        self.stop = Stop(
            signal=signal.SIGTERM,
            grace=chance.choice((0.2, 2.0)),
            patience=chance.choice((0.0, 0.0, 0.0, 1.0)),
            reap=REAP,
            linger=chance.choice((None, 0.1)),
            notice=chance.choice((0.0, 0.0, 0.5)),
        )
        self.ranks = Ranks(kernel, int(signal.SIGTERM))
        self.shown = Shown(kernel, self.ranks if watched else None)
        self.hang = Hang(stacks=False, start=START)
        if watched:
            self.hang = Hang(
                stacks=chance.random() < 0.5,
                start=START,
                timeout=chance.choice((None, None, 0.5, 2.0)),
                silence=chance.choice((None, None, None, 1.0)),
            )
        limits = [s for s in (self.hang.timeout, self.hang.silence) if s is not None]
        self.shown.every = 0.4 * min(limits) if limits else None
        self.faults = 0  # of the forkserver
        self.wishes = []  # when a stop was asked for, and how
        self.signals = []  # when one was asked for, the rank, its process if it is to get it
        self.looks = []  # answers to requests for stacks, and when they were made
        self.suspensions = []  # seconds
        self.events = []

    def _spec(self):
        return make_spec(
            _nothing,
            nproc=self.chance.randint(1, 5),
            stop=self.stop,
            restart=self.restart,
            hang=self.hang,
            logs=Logs(prefix="[{rank}] "),
            preload=None,
            on_failure=(lambda _: None) if self.asks else None,
        )

    def _server(self):
        server = Scripted(self.kernel, self.ranks, self.chance.choice((0.0005, 0.02)))
        self.servers.append(server)
        return server

    def _errands(self, _):
        made = Errands(self.kernel, self.slow)
        self.errands.append(made)
        return made

    # -- what comes from outside

    def _disturb(self):
        kernel, chance = self.kernel, self.chance
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            at = chance.choice((0.002, 0.05, 0.5, 3.0)) * chance.uniform(0.1, 2.0)
            kernel.at(at, chance.choice((self._kill, self._freeze, self._freeze, self._freeze)))
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            at = chance.choice((0.003, 0.05, 0.7, 5.0)) * chance.uniform(0.1, 2.0)
            kernel.at(at, self._wish)
        kernel.at(100.0, lambda: self._want(StopRequest()))  # for ranks that live on
        for _ in range(chance.choice((0, 0, 1, 3))):
            at = chance.choice((0.01, 0.5, 2.0)) * chance.uniform(0.1, 2.0)
            kernel.at(at, self._strike_rank)
        if not self.watched:
            return
        for _ in range(chance.choice((0, 0, 1, 3))):
            at = chance.choice((0.003, 0.05, 0.7, 5.0)) * chance.uniform(0.1, 2.0)
            kernel.at(at, chance.choice((self._signal, self._signal, self._look)))
        if chance.random() < 0.1:
            kernel.at(chance.choice((0.02, 0.5, 3.0)), self.request_suspension)

    def _kill(self):
        self.faults += 1
        self.servers[-1].strike()

    def _freeze(self):
        self.faults += 1
        server = self.servers[-1]
        server.freeze(self.chance.choice("TttD"))
        seconds = self.chance.choice((0.02, 0.5, 0.95, 1.05, 1.15, 1.3, 3.0, 8.0))
        self.kernel.at(seconds * self.chance.uniform(0.95, 1.05), server.thaw)

    def _strike_rank(self):
        alive = [p for p in self.ranks.all if p.state == "alive"]
        if alive:
            process = self.chance.choice(alive)
            if process.failed_at is None:
                process.failed_at, process.silent = self.kernel.tick(), True
            self.kernel.end(process, 9)

    def _signal(self):
        rank = self.chance.randrange(self.nproc)
        caught = self.chance.random() < 0.5
        process = self.ranks.by_rank.get(rank)
        if process is not None:
            wanted = process.state == "alive" and (process.takes_user_signals or not caught)
            process = process if wanted else None
        self.signals.append((self.kernel.now, rank, process))
        self.supervisor.request_signal(rank, signal.SIGUSR1, caught)

    def _look(self):
        answers = []
        self.looks.append((self.kernel.now, answers))
        self.supervisor.request_stacks(
            LOOK_SECONDS, lambda taken: answers.append((self.kernel.now, taken))
        )

    def request_suspension(self):
        self.supervisor.request_suspension()

    def _suspend(self, pid, number):
        assert (pid, number) == (LAUNCHER, signal.SIGSTOP)
        seconds = self.chance.choice((0.1, 3.0, 40.0))
        self.suspensions.append(seconds)
        self.kernel.sleep(self.kernel.now + int(seconds * SECOND), lambda: False)

    def _wish(self):
        grace = self.chance.choice((None, None, 0.1))
        self._want(StopRequest(kill=self.chance.random() < 0.3, grace=grace))

    def _want(self, request):
        self.wishes.append((self.kernel.now, request))
        self.supervisor.request_stop(request)

    # -- it runs

    def run(self):
        """Run it to its end."""
        with self._scripted():
            spec = self._spec()
            self.nproc = spec.nproc
            jobs = self.jobs = Jobs(
                self.kernel,
                self._server,
                self.slow and self.chance.random() < 0.5,
                self.shown.board(),
            )
            self.supervisor = Supervisor(spec, jobs, self._server())
            self.supervisor.subscribe(self.events.append, inside=True)
            if self.slow:
                self.supervisor.subscribe(lambda _: None)
            self._disturb()
            self.began = self.kernel.now
            self.supervisor.run()
        self.ended = self.events[-1].at

    @contextlib.contextmanager
    def _scripted(self):
        kernel = self.kernel
        clock, system, numbers = kernel.clock(), kernel.os(), kernel.signals()
        new = {
            eventloop: {"time": clock, "os": system, "select": kernel.select()},
            exits: {
                "time": clock,
                "os": system,
                "signal": numbers,
                "caught_alive": kernel.caught_alive,
                "status_of_zombie": kernel.status_of_zombie,
                "OomWatch": lambda: SimpleNamespace(verdict=lambda _: False),
            },
            ranks: {"time": clock, "os": system, "signal": numbers, "look_at": self._look_at},
            link: {
                "time": clock,
                "state_of": self._state_of,
                "describe": lambda _: "sleeps",
                "own_mark": lambda: "mark",
                "client": SimpleNamespace(
                    starting=contextlib.nullcontext, others_than=lambda _: []
                ),
            },
            remains: {
                "time": clock,
                "os": system,
                "processes": self._processes,
                "parents": self._parents,
                "carries": self._carries,
                "send": self._send,
            },
            tree: {"os": system, "children": self._children},
            signals: {"os": system},
            children: {"time": clock, "os": system},
            supervisor: {
                "time": clock,
                "pool": SimpleNamespace(discard=lambda server: None),
                "os": SimpleNamespace(getpid=lambda: LAUNCHER, kill=self._suspend),
            },
            activity: {"Activity": self.shown.activity},
            processes: {"state_of": self._state_of},
            taking: self.shown.taking(),
            ends: {"time": clock, "describe": lambda _: "sleeps"},
            journal: {"time": clock, "Errands": self._errands},
            **{module: {"time": clock} for module in (deciding, lastlook, limits)},
            hangs: {"time": clock, "is_dying": kernel.is_dying},
        }
        old = {
            module: {name: getattr(module, name) for name in names} for module, names in new.items()
        }
        try:
            for module, names in new.items():
                vars(module).update(names)
            yield
        finally:
            for module, names in old.items():
                vars(module).update(names)

    # -- /proc

    def _children(self):
        return [p.pid for p in self.kernel.below(self.kernel.by)]

    def _seen(self, process):
        return Seen(process.pid, process.parent, process.group, process.start)

    def _look_at(self, pid):
        self.kernel.catch_up()
        process = self.kernel.table.get(pid)
        there = process is not None and process.state in ("alive", "dying")
        return self._seen(process) if there else None

    def _processes(self):
        return {pid: seen for pid in list(self.kernel.table) if (seen := self._look_at(pid))}

    def _parents(self, pid):
        found, process = [], self.kernel.table.get(pid)
        if process is None or process.state == "zombie":
            return None
        while process is not None and process.parent:
            found.append(process.parent)
            process = self.kernel.table.get(process.parent)
        return found

    def _carries(self, pid, mark, page):
        process = self.kernel.table.get(pid)
        if process is None:
            return False
        return None if process.state == "dying" and process.mark else process.mark

    def _send(self, seen, number):
        self.kernel.catch_up()
        process = self.kernel.table.get(seen.pid)
        if process is not None and process.start == seen.start:
            self.kernel.deliver(process, number)

    def _state_of(self, pid):
        self.kernel.catch_up()
        for server in self.servers:
            if server.pid == pid and server.process.state == "alive":
                return SimpleNamespace(letter=server.state)
        return self.shown.state_of(pid)


def _nothing():
    pass
