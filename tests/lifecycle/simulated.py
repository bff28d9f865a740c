"""A lifecycle on a virtual clock, with a scripted forkserver and scripted ranks.

Each rank has a script: when it starts and is ready, how and when it ends, what it does at a signal,
what it leaves behind. What happens is told with a delay, by two channels that overtake each other:
the forkserver's socket and the rank's outcome channel. The clock jumps to what comes next. So a
week of a group takes milliseconds, and what really happened first is known.
"""

import heapq
import itertools
from dataclasses import dataclass

from seams.rules import (
    Arm,
    Cancel,
    Deadline,
    DeadlineKind,
    End,
    Lifecycle,
    RankEvent,
    Signal,
    Spawn,
    StopWanted,
    Sweep,
    Swept,
    WorkerEvent,
)

START, PATIENCE, NOTICE, LINGER, GRACE, REAP, BACKOFF, *_ = DeadlineKind
SECONDS = {START: 300.0, PATIENCE: 20.0, NOTICE: 15.0, LINGER: 5.0, GRACE: 30.0, REAP: 10.0,
           BACKOFF: 7.0}  # fmt: skip
DELAY = 0.003  # seconds in which news arrive
NEVER = float("inf")


@dataclass
class Rank:
    """A process of one attempt, by its script, and what became of it. Times in seconds.

    fate: "finishes", "fails" (and says so), "dies" (without a word), "lives", "cannot start".
    stops: seconds after the stop signal until it ends; killed: after SIGKILL; NEVER: it does not.
    """

    ready: float
    fate: str
    after: float
    exits: float
    stops: float
    killed: float
    says: bool  # at a stop, it reports an exception
    began: float = NEVER
    failed: float = NEVER
    finished: float = NEVER
    signalled: float = NEVER
    gone: float = NEVER
    told: float = 0.0  # when its last news arrives
    number: int = 0  # of its plans: older ones are void


class Simulation:
    """One group, from its start to its end; `now` is the virtual time in seconds."""

    def __init__(self, chance, nproc, restarts, patient):
        self.chance, self.now = chance, 0.0
        self.life = Lifecycle(nproc, restarts, patient)
        self.ranks = []
        self.left = 0.0  # seconds that what ranks left needs to end; NEVER: it ignores the signal
        self.ended = None
        self.asked_to_end = NEVER  # when the group first had a reason to end, in this attempt
        self.stop_wanted = False
        self._due = []  # (time, number, call)
        self._numbers = itertools.count()
        self._deadlines = {}
        self._grace_ends = NEVER
        self._last_news = 0.0
        self._last_order = 0.0
        self._sweeps = 0
        self.events = 0

    def at(self, time, call):
        heapq.heappush(self._due, (time, next(self._numbers), call))

    def tell(self, event):
        self.events += 1
        self._obey(self.life.handle(event))

    def run(self):
        """Run it to its end."""
        self._obey(self.life.begin())
        while self.ended is None:
            assert self._due, "nothing will happen any more"
            self.now, _, call = heapq.heappop(self._due)
            call()
            assert self.events < 10_000, "it does not end"

    # -- what the lifecycle asks for

    def _obey(self, actions):
        for action in actions:
            if isinstance(action, Spawn):
                self._spawn()
            elif isinstance(action, Cancel):
                self._order(self._cancel)
            elif isinstance(action, Signal):
                self._order(lambda a=action: self._signal(a.ranks, a.kill))
            elif isinstance(action, Sweep):
                self._sweeps += 1
                self._order(lambda a=action, n=self._sweeps: self._sweep(n, a.kill))
            elif isinstance(action, Arm):
                self._arm(action.deadline)
            elif isinstance(action, End):
                self.ended = self.now

    def _order(self, call):
        """Let the forkserver get a message, in order."""
        self._last_order = max(self._last_order, self.now + self.chance.uniform(0, DELAY))
        self.at(self._last_order, call)

    def _arm(self, deadline):
        at = self.now + SECONDS[deadline.kind]
        if deadline.kind is GRACE:
            at = self._grace_ends = min(self._grace_ends, at)
        token = self._deadlines[deadline.kind] = object()

        def fire():
            if self._deadlines.get(deadline.kind) is token:
                late = deadline.kind is START and self.life.phase.name == "STARTING"
                if late:
                    self.asked_to_end = min(self.asked_to_end, self.now)
                self.tell(Deadline(deadline.kind, deadline.attempt, self._ns(self.now)))

        self.at(at, fire)

    def _spawn(self):
        chance = self.chance
        self._grace_ends, self.asked_to_end = NEVER, NEVER
        self.left = chance.choice((0.0, 0.0, 0.0, 0.1, 3.0, NEVER))
        self.ranks = [self._scripted() for _ in range(self.life.nproc)]
        time = self.now
        for number, rank in enumerate(self.ranks):
            time += chance.uniform(0, 0.01)
            self.at(time, lambda n=number, r=rank: self._start(n, r))

    def _scripted(self):
        chance = self.chance
        fates = (
            ["finishes"] * 6
            + ["fails"] * 2
            + ["dies"]
            + ["lives"] * 2
            + ["cannot start"] * (chance.random() < 0.1)
        )
        return Rank(
            ready=chance.choice((0.01, 0.1, 1.0)) if chance.random() < 0.98 else NEVER,
            fate=chance.choice(fates),
            after=chance.choice((0.0, 0.001, 0.01, 1.0, 100.0)) * chance.uniform(0.5, 1.5),
            exits=chance.choice((0.0, 0.001, 0.1, 2.0, 50.0)),
            stops=chance.choice((0.0, 0.001, 0.5, 29.0, NEVER)),
            killed=chance.choice((0.0, 0.001, 0.01)) if chance.random() < 0.99 else NEVER,
            says=chance.random() < 0.3,
        )

    # -- what happens

    def _ns(self, time):
        return int(time * 1e9)

    def _news(self, kind, number, rank, at, *, ok=True, pipe=False):
        """Let the supervisor hear of something that happened at a time; the pipe may overtake."""
        arrives = max(self.now, at) + self.chance.uniform(0, DELAY)
        if pipe:
            rank.told = max(rank.told, arrives)
        else:
            arrives = max(arrives, self._last_news)
            if kind is WorkerEvent.EXITED:
                arrives = max(arrives, rank.told)  # what a dead rank has told is read first
            self._last_news = arrives
        event = RankEvent(kind, number, self._ns(at), ok)
        self.at(arrives, lambda: self.ranks[number] is rank and self.tell(event))

    def _start(self, number, rank):
        if self.ranks[number] is not rank or rank.gone < NEVER:
            return  # cancelled
        if rank.fate == "cannot start":
            rank.gone = self.now
            self.asked_to_end = min(self.asked_to_end, self.now)
            self._news(WorkerEvent.SPAWN_FAILED, number, rank, self.now, ok=False)
            return
        rank.began = self.now
        self._news(WorkerEvent.SPAWNED, number, rank, self.now)
        if rank.ready < NEVER:
            self._plan(rank, self.now + rank.ready, lambda: self._reach(number, rank))

    def _plan(self, rank, time, call):
        """Let a rank do something, unless a signal or its end changes its plans."""
        plan = rank.number
        self.at(time, lambda: rank.number == plan and rank.gone == NEVER and call())

    def _reach(self, number, rank):
        self._news(WorkerEvent.READY, number, rank, self.now)
        if rank.fate in ("finishes", "fails", "dies"):
            self._plan(rank, self.now + rank.after, lambda: self._end(number, rank))

    def _end(self, number, rank):
        ok = rank.fate == "finishes"
        if ok:
            rank.finished = self.now
        else:
            rank.failed = self.now
            self.asked_to_end = min(self.asked_to_end, self.now)
        if rank.fate == "dies":
            self._exit(number, rank, ok=False)
            return
        self._news(WorkerEvent.REPORTED, number, rank, self.now, ok=ok, pipe=True)
        self._plan(rank, self.now + rank.exits, lambda: self._exit(number, rank, ok=ok))

    def _exit(self, number, rank, *, ok):
        rank.gone = self.now
        self._news(WorkerEvent.EXITED, number, rank, self.now, ok=ok)

    def _cancel(self):
        for number, rank in enumerate(self.ranks):
            if rank.began == NEVER and rank.gone == NEVER:
                rank.gone = self.now
                self._news(WorkerEvent.CANCELLED, number, rank, self.now)

    def _signal(self, numbers, kill):
        for number in numbers:
            rank = self.ranks[number]
            if rank.gone < NEVER:
                continue
            kind = WorkerEvent.KILL_SENT if kill else WorkerEvent.STOP_SENT
            rank.signalled = min(rank.signalled, self.now)
            self._news(kind, number, rank, self.now)
            seconds = rank.killed if kill else rank.stops
            if seconds == NEVER and not kill:
                continue  # it goes on with what it does
            rank.number += 1
            if seconds < NEVER:
                self._plan(
                    rank, self.now + seconds, lambda n=number, r=rank, k=kill: self._obeys(n, r, k)
                )

    def _obeys(self, number, rank, killed):
        if rank.says and not killed and rank.failed == NEVER and rank.finished == NEVER:
            self._news(WorkerEvent.REPORTED, number, rank, self.now, ok=False, pipe=True)
        self._exit(number, rank, ok=False)

    def _sweep(self, number, kill):
        if kill or self.left < NEVER:
            attempt = self.life.attempt
            stays = kill and self.chance.random() < 0.01
            if not stays:
                arrives = self.now + (0.0 if kill else self.left) + self.chance.uniform(0, DELAY)
                self.at(arrives, lambda: self._swept(number, attempt))

    def _swept(self, number, attempt):
        if number == self._sweeps:  # it is told once, of the last sweep that was asked for
            self._sweeps += 1
            self.tell(Swept(attempt, self.chance.random() < 0.9))

    def want_stop(self, **wish):
        """Let somebody ask for the end."""
        if self.ended is None:
            self.stop_wanted = True
            self.asked_to_end = min(self.asked_to_end, self.now)
            self.tell(StopWanted(**wish))
