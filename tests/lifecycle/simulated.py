"""A real agent over the fake kernel: ranks do what is planned, a launcher replays the rules.

What runs for real is the whole agent: its loop, `Run`, the forking, children, channels, order of
deaths, limits, and the messages in both directions. Its modules get the fake kernel in place of
`os`, `time`, `select` and `signal`. Only how a rank writes its stacks is replaced.
"""

import os
import signal
from types import SimpleNamespace

import pytest

from seams.agent import (
    Receiver,
    Sender,
    Server,
    children,
    forking,
    limits,
    order,
    protocol,
    run,
    server,
    stacks,
)
from seams.rules import (
    Lifecycle,
    Phase,
    RankEvent,
    Spawn,
    StopWanted,
    Swept,
    WorkerEvent,
    event_of,
)
from seams.system import eventloop, processes, tree
from seams.worker import DONE, ERROR, FAILED, HEADER, INLINE, VALUE

from .kernel import AGENT, ROOM, SECOND, File, Kernel

STOP, KILL, USER = signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1
LARGEST = 4 << 20
HELD = INLINE + HEADER.size  # bytes of a rank's value that the agent may hold, and
QUEUED = 1 << 20  # for all ranks, and for each, that wait for the launcher


def state(life):
    """Give what both sides must agree on. Who is to be signalled is the agent's alone."""
    ranks = [{**vars(rank), "asked": None, "awaited": None} for rank in life.ranks]
    return life.stage, life.attempt, life.stop_wanted, life.left_behind, ranks


class Plan(SimpleNamespace):
    """What a rank does, with times in seconds. stops: after the stop signal; None: it does not.

    lead: when it makes its session. exits: from its outcome to its end. says: it reports its end
    by the stop signal as a failure. notices: it fails when a peer has closed its connections.
    """

    lead, ready, fate, after, exits = 0.0, 0.001, "lives", 0.0, 0.001
    stops, says, kill, starts, notices, daemons, dump, status = (
        0.001,
        False,
        0,
        True,
        False,
        (),
        1,
        9,
    )


class Watched(Server):
    """Notes, with each event that it tells, the state in which its rules are then."""

    def __init__(self, sock, world):
        super().__init__(sock, 1, SimpleNamespace(end=lambda: None))
        self._world = world

    def _report(self, *message, fds=()):
        if message[0] == "event":
            self._world.states.append(state(self._run.life))
        if message[:2] == ("event", "Swept"):
            assert not self._world.kernel.below(AGENT), "it was swept"
        super()._report(*message, fds=fds)

    def _fork(self):
        self._world.job = self._forking.next[0]
        return super()._fork()

    def _send(self):
        super()._send()
        own = self._run._processes if self._run is not None else ()
        for each in own:
            if each is not None and each.channel is not None:
                assert len(each.channel._data) <= HELD
        assert self._sender.size <= QUEUED * (1 + len(own)) + (64 << 10)


class World:
    """One group. plan: gives what a rank does. wishes: what the launcher wants, and when.

    restarts: how often it is to start again after a failure.
    """

    def __init__(self, chance, words, plan, wishes, *, slow=(0.0,), restarts=0):
        self.kernel, self.words, self.plan = Kernel(chance), words, plan
        self.chance, self.kernel.fork, self.slow = chance, self._fork, slow
        self.restarts = restarts
        self.states, self.ranks, self.by_rank, self.job = [], [], {}, None
        self.launcher = Launcher(self, words)
        for seconds, *wish in wishes:
            call = self.strike if wish[0] == "strike" else self.launcher.want
            self.kernel.at(seconds, lambda call=call, wish=wish: call(*wish))

    def run(self):
        with pytest.MonkeyPatch.context() as patch:
            for module, names in self._fakes().items():
                for name, fake in names.items():
                    patch.setattr(module, name, fake)
            agent = Watched(self.launcher.sock.peer, self)
            self.kernel.at(0.0, self.launcher.begin)
            assert agent.serve(()) is None

    def _fakes(self):
        kernel = self.kernel
        system, clock, numbers = kernel.os(), kernel.time(), kernel.signal()
        fd = File(kernel, "owner").fd
        launcher = SimpleNamespace(pidfd=fd, gone=False)
        both = {"os": system, "time": clock}
        programs = SimpleNamespace(start=lambda *_: None, done=lambda: None)
        seen = SimpleNamespace(letter="S", catches=lambda _: True, blocks=lambda _: False)
        return {
            os: dict.fromkeys(("kill", "killpg")),  # no real process has these numbers
            server: {**both, "signal": self._signals(numbers),
                     "Owner": lambda _: launcher, "become_subreaper": int,
                     "hear_of_parents_end": int, "wake_no_more": int},
            eventloop: {**both, "select": kernel.select(), "_delay": int},
            run: {**both, "state_of": lambda _: seen, "pidfd_of": system.pidfd_open},
            children: both,
            tree: {"os": system, "children": lambda: [p.pid for p in kernel.below(AGENT)]},
            processes: {"os": system},
            protocol: {"os": system, "select": kernel.select()},
            limits: both,
            order: {"time": clock, "caught_alive": self._caught_alive},
            forking: {**both, "signal": numbers, "Programs": lambda *_: programs,
                      "socket": SimpleNamespace(socketpair=lambda: kernel.pair("channel"))},
            stacks: {**both, "_look_at": self._look_at, "_ask": self._ask, "_is_whole": self._whole,
                     "state_of": lambda _: seen, "describe": lambda _: "sleeps",
                     "_send": lambda *_: None, "pidfd_of": system.pidfd_open},
        }  # fmt: skip

    def _signals(self, numbers):
        def woken_by(fd, **_):
            self.kernel.children_end = lambda: self.kernel.files[fd].peer.push(b"\0")

        return SimpleNamespace(**{**vars(numbers), "set_wakeup_fd": woken_by})

    # -- ranks

    def _fork(self):
        self.kernel.tick()
        if self.chance.random() < 0.01:
            raise BlockingIOError(11, "no process")
        kernel, rank = self.kernel, self.job["rank"]
        process = kernel.make(AGENT, AGENT)
        if (before := self.by_rank.get(rank)) is not None:
            assert kernel.table.get(before.pid) is not before, f"rank {rank} is there twice"
        plan = process.plan = self.plan(rank)
        process.rank, process.attempt, process.kill = rank, self.job["attempt"], plan.kill
        process.channel = kernel.pair_of if self.job["kind"] != "exec" else None
        process.status_pipe = kernel.pipe_of
        process.failed_at = process.finished_at = None
        process.asked = []  # when it was asked for its stacks
        process.silent = process.dumped = process.lied = False
        process.lived_at = 0
        process.step = 0  # what it is about, which a signal may change
        process.on_signal = lambda number: self._signalled(process, number)
        process.on_end = lambda: self._closes(process)
        self.ranks.append(process)
        self.by_rank[rank] = process
        kernel.at(plan.lead, lambda: setattr(process, "group", process.pid))
        self._later(process, plan.lead + plan.ready, lambda: self._begin(process))
        return process.pid

    def _later(self, process, seconds, call):
        step = process.step

        def due():
            if process.stopped and process.state == "alive":
                self.kernel.at(0.25, due)
            elif process.state == "alive" and process.step == step:
                call()

        self.kernel.at(seconds, due)

    def _begin(self, process):
        plan, status = process.plan, process.status_pipe
        if not plan.starts:
            process.failed_at = self.kernel.now
            status.push(b"start its program\0002\0no such file")
            self.kernel.end(process, 127 << 8)
            return
        status.push()
        process.status_pipe = None
        for obeys in plan.daemons:
            child = self.kernel.make(process.pid, process.group)
            child.attempt, child.obeys = process.attempt, obeys
            child.on_signal = lambda n, c=child: n == USER or not c.obeys or self.kernel.end(c, n)
        if plan.fate != "lives":
            self._later(process, plan.after, lambda: getattr(self, f"_{plan.fate}")(process))

    def _frame(self, process, kind, body=b"", *, length=None):
        if process.channel is not None:
            head = HEADER.pack(kind, len(body) if length is None else length, self.kernel.now)
            process.channel.push(head + body)

    def _finishes(self, process, body=b""):
        process.finished_at = self.kernel.now
        self._frame(process, VALUE if self.words["function"] else DONE, body)
        self._exit_when_read(process, 0)

    def _exit_when_read(self, process, status):
        def leave():
            seconds = process.plan.exits
            self._later(process, seconds, lambda: self.kernel.end(process, status))

        channel = process.channel
        if channel is not None and channel.size > ROOM:
            channel.drained = leave
        else:
            leave()

    def _values(self, process):
        self._finishes(process, bytes(self.chance.choice((INLINE, INLINE + 1, 3 << 20))))

    def _lies(self, process):
        process.lied = True  # nothing of it is believed any more
        self._frame(process, b"?", bytes(100_000), length=LARGEST)
        self._later(process, process.plan.exits, lambda: self._dies(process))

    def _dies(self, process):
        process.failed_at, process.silent = self.kernel.now, True
        self.kernel.end(process, process.plan.status)

    def _raises(self, process):
        if process.finished_at is not None or process.lied:
            return
        if process.first(STOP, KILL) > self.kernel.now and process.failed_at is None:
            process.failed_at, process.silent = self.kernel.now, process.channel is None
        self._frame(process, FAILED, b"exception\0001\0Error")
        process.step += 1
        if process.channel is None:
            self.kernel.end(process, 1 << 8)
        else:
            self._later(process, self.chance.choice((0.0, 0.005)), lambda: self._describes(process))

    def _describes(self, process):
        self._frame(process, ERROR, bytes(100))

        def leave():
            process.channel.answered = lambda: None
            self._exit_when_read(process, 1 << 8)

        process.channel.answered = leave
        self._later(process, 0.2, lambda: process.channel.answered())

    def _closes(self, process):
        """Close its descriptors; what it has written and nobody could take is gone."""
        channel, process.closed_at = process.channel, self.kernel.now
        if process.status_pipe is not None:
            process.status_pipe.push()
        if channel is not None:
            more = channel.size - ROOM
            if more > 0:
                part, fds = channel.parts.pop()
                channel.parts.append((part[:-more], fds))
                channel.size -= more
            channel.push()
        if process.failed_at is not None:
            for other in self.by_rank.values():
                if other.plan.notices and other.failed_at is other.finished_at is None:
                    self._later(other, 0.0002, lambda each=other: self._raises(each))

    def _signalled(self, process, number):
        plan = process.plan
        if number == STOP and plan.stops is not None:
            process.step += 1
            self._later(process, plan.stops, lambda: self._obeys(process))

    def _obeys(self, process):
        if process.plan.says and process.finished_at is None:
            self._frame(process, FAILED, b"exception\0001\0Terminated")
        self.kernel.end(process, int(STOP))

    def strike(self, _, rank):
        """Let the system kill a rank."""
        process = self.by_rank.get(rank)
        if process is not None and process.state == "alive":
            if process.failed_at is None:
                process.failed_at, process.silent = self.kernel.now, True
            self.kernel.end(process, 9)

    # -- looks at them

    def _caught_alive(self, pid):
        self.kernel.tick()
        process = self.kernel.table.get(pid)
        if process is None or process.state != "alive":
            return -1
        process.lived_at = self.kernel.now
        return (1 << 31) - 1

    def _look_at(self, taken, _):
        process = self.kernel.table.get(taken.pid)
        if process is None or process.state != "alive":
            taken.state = "is gone"
            return -1
        process.asked.append(self.kernel.tick())
        taken.letter = "RS"[taken.pid % 2]
        if process.plan.dump is None:
            return -1
        return File(self.kernel, "dump").fd

    def _ask(self, asked):
        process = self.kernel.table[asked.taken.pid]
        self.kernel.at(process.plan.dump, lambda: setattr(process, "dumped", True))
        return True

    def _whole(self, asked):
        process = self.by_rank.get(asked.taken.rank)
        return process is not None and process.dumped


class Launcher:
    """Asks for ranks, answers, wishes, and goes through the same states as the agent."""

    def __init__(self, world, words):
        self.world, self.kernel = world, world.kernel
        self.life = Lifecycle(**{name: words[name] for name in ("nproc", "patient", "single")})
        self.sock, agents = self.kernel.pair("link")
        assert agents is self.sock.peer
        self.sock.heard = self._expect
        self._receiver, self._sender = Receiver(self.sock), Sender(self.sock)
        self.told = self.restarted = 0
        self.gone, self.wished, self.asked = {}, [], set()
        self.suspended = []  # when it was wanted, since when, and until when
        self.faulty = set()  # attempts in which a rank could not be started
        self.lost = self.over = self._expects = False
        self._stopped, self._suspends = False, 0
        self.on_swept = lambda: None

    def begin(self):
        self._begin(self.life.begin_attempt())

    def _begin(self, actions):
        if not self.over:
            rules = {**self.world.words, "attempt": self.life.attempt}
            self.send("rules", rules, fds=[File(self.kernel, "board").fd])
            self._do(actions)

    def _begin_again(self):
        if self._stopped or self._suspends:
            self.kernel.at(0.1, self._begin_again)
        elif not self.over:
            self._begin(self.life.begin_attempt(self.life.attempt + 1))

    def send(self, *message, fds=()):
        if not self.over:
            self._sender.send(message, list(fds), [])

    def _expect(self):
        if not self._expects:
            self._expects = True
            self.kernel.at(self.world.chance.choice(self.world.slow), self._hear)

    def _hear(self):
        if self._stopped:
            self.kernel.at(0.1, self._hear)
            return
        self._expects = False
        self._sender.flush()
        while self.sock.parts:
            for (_, messages), _ in self._receiver.receive():  # whose descriptors are the agent's
                for kind, *words in messages:
                    if (take := getattr(self, f"_take_{kind}", None)) is not None:
                        take(*words)

    # -- what the agent tells

    def _take_gone(self, rank, _status, _seconds, _peak, at, doubt, _torn):
        self.gone[rank] = at, doubt

    def _take_event(self, *words):
        event = event_of(words)
        if isinstance(event, Swept):
            self.on_swept()
        over = self.life.phase.final
        actions = self.life.handle(event)
        assert state(self.life) == self.world.states[self.told], event
        self.told += 1
        if isinstance(event, RankEvent) and event.kind is WorkerEvent.EXITED:
            self.life.ranks[event.rank].awaited = False
        if any(rank.start_failed for rank in self.life.ranks):
            self.faulty.add(self.life.attempt)
        if self.life.stop_wanted or self.life.phase is Phase.STOPPING:
            self.asked.clear()
        if self.life.phase.final and not over:
            follows = self.restarted < self.world.restarts and not self.life.single
            if follows and self.life.may_be_followed:
                self.restarted += 1
                self.kernel.at(self.world.chance.choice((0.0, 0.1, 10.0)), self._begin_again)
            else:
                self.kernel.at(0.001, self._end)
        elif over and isinstance(event, StopWanted):
            self._end()
        self._do(actions)

    def _take_ask(self, rank, attempt):
        self.asked.add((rank, attempt))
        self.life.ranks[rank].awaited = True
        seconds = self.world.chance.choice((0.0, 0.05, 10.0))
        self.kernel.at(seconds, lambda: self._answer(rank, attempt))

    def _answer(self, rank, attempt):
        if (rank, attempt) in self.asked:
            again = self.restarted < self.world.restarts
            self.restarted += again
            self.send("answer", rank, attempt, again, self.world.chance.choice((0.0, 0.1)))

    def _take_suspended(self):
        self._stopped = True
        self.suspended.append((self._suspends, self.kernel.now, self.kernel.now + 40 * SECOND))
        self.kernel.at(40.0, self._go_on)

    def _go_on(self):
        self._stopped, self._suspends = False, 0
        self.send("resume")

    # -- what it does

    def _do(self, actions):
        for action in actions:
            if isinstance(action, Spawn) and action.rank is None:
                self.gone.clear()
                self.send("begin", {})
                for rank in range(self.life.nproc):
                    self._spawn(rank)
            elif isinstance(action, Spawn):
                self.gone.pop(action.rank, None)
                self.kernel.at(0.1, lambda rank=action.rank: self._spawn(rank))

    def _spawn(self, rank):
        if self.over:
            return
        attempt = self.life.attempt + self.life.ranks[rank].attempt
        if self.world.chance.random() < 0.01:
            self.send("no start", rank, attempt, "make its pipes", 24, "too many")
            return
        kind = "fresh" if self.world.words["python"] else "exec"
        job = {"rank": rank, "attempt": attempt, "kind": kind, "fds": {}, "inherit": []}
        self.send("spawn", [job])

    def want(self, what, *words):
        if self._stopped or (what == "suspend" and (self._suspends or self.life.phase.final)):
            return
        self.wished.append((self.kernel.now, what, *words))
        if what == "lost":
            self.lost = True
            self._end()
        elif what == "suspend":
            self._suspends = self.kernel.now
            self.send("suspend")
        elif what == "signal":
            self.send("signal", int(USER), [*words], False, self.kernel.now)
        elif what == "hung":
            self.send("hung", *words, self.kernel.now, False)
        else:
            self.send(what, *words)

    def _end(self):
        if not self.over:
            if not self.lost:
                self.send("idle", None)
            self.over = True
            self.kernel.at(0.001, self.sock.peer.push)
