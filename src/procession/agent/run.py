"""One group, run by its rules: what happens to its ranks is passed to them, what follows is done.

Theory of operation. Everything that happens becomes an event of the `Lifecycle`: an exit, an
outcome, a wish of the launcher, a deadline. The lifecycle says what follows, and it is done here,
by direct calls. The launcher is told of each event, in this order: it goes through the same states
with a lifecycle of its own, and does what is its own to do (files, output, reports). It decides
what rules cannot: whether a failed group or rank starts again. Nothing here waits for it.
"""

from __future__ import annotations

import os
import time

from procession.agent.beforestop import BeforeStop
from procession.agent.children import Children
from procession.agent.limits import NEVER, Limits
from procession.agent.order import Order, Process
from procession.agent.outcomes import OutcomeChannels
from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import (
    Action,
    Arm,
    Cancel,
    Deadline,
    Event,
    RankEvent,
    Signal,
    Spawn,
    StopWanted,
    Sweep,
    Swept,
    plain,
)
from procession.rules.tables import DeadlineKind, Phase, Worker, WorkerEvent
from procession.system import plain as signal
from procession.system.processes import pidfd_of, state_of

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    import _socket as socket
    from collections import deque
    from collections.abc import Callable
    from typing import Any

    from procession.agent.forking import Fault, Forking
    from procession.system.eventloop import EventLoop
else:
    from _collections import deque  # `collections` around it takes 1 ms to import


class GroupRun:
    """The group that this process runs, from its first rank to its end.

    words: `nproc`, `attempt`, `patient`, `single`, as of `Lifecycle`;
    `python`: its ranks are Python programs, `function`: a function; `may`: what these may send, see
    `channels`; `alone`: there are no ranks on other machines; `stacks`: they are taken before the
    stop signal; `limits`: see `Limits`.
    board: its descriptor. report: takes the parts of a message, and descriptors that go with it.
    """

    def __init__(
        self,
        words: dict[str, Any],
        board: int,
        loop: EventLoop,
        forking: Forking,
        report: Callable[..., None],
    ) -> None:
        self._words = words
        self._loop = loop
        self._forking = forking
        self._report = report
        self.life = Lifecycle(
            words["nproc"],
            patient=words["patient"],
            single=words["single"],
        )
        self._limits = Limits(words["limits"], board)
        self._children = Children(forking, self._exited, self._swept)
        self._processes: list[Process | None] = []
        self._actions: deque[Action] = deque()  # the first one is being carried out
        self._asked: dict[int, Callable[[bool], None]] = {}  # by rank: whose answer is due
        self._delay = 0.0  # seconds until what was decided for last begins
        stacks = words["python"] and words["stacks"]
        self._before_stop = BeforeStop(self.life, loop, report, wanted=stacks)
        self.outcomes = OutcomeChannels(words, self.life, loop, self._limits, self.handle, report)
        self._carry_out_all(self.life.begin_attempt(words["attempt"]))

    # -- the rules

    def handle(self, event: Event) -> None:
        """Pass an event to the rules, tell the launcher of it, and do what follows."""
        if isinstance(event, StopWanted) and not self._before_stop.asked:
            self._before_stop.end_now()
        life = self.life
        actions = life.handle(event)
        self._report("event", *plain(event))
        if isinstance(event, RankEvent) and event.kind is WorkerEvent.READY:
            # With a deadline, the loop wakes each second.
            self._loop.cancel((DeadlineKind.START_IT, event.rank))
            if life.phase is Phase.RUNNING:
                self._loop.cancel(DeadlineKind.START)
        if actions:
            self._carry_out_all(actions)
        swept = life.single and life.phase is Phase.SWEEPING
        if self._asked and (life.stop_wanted or life.phase is Phase.STOPPING or swept):
            asked, self._asked = self._asked, {}
            for answer in asked.values():
                answer(False)

    def _carry_out_all(self, actions: list[Action]) -> None:
        """Carry out actions in order; what they lead to comes after them."""
        self._actions += actions
        if len(self._actions) == len(actions):
            self._carry_out()  # else a call further up does, or they wait for stacks

    def _carry_out(self) -> None:
        """Carry out what is to be done, up to a signal that has to wait for stacks."""
        while self._actions:
            action = self._actions[0]
            if isinstance(action, Spawn):
                self._expect(action.rank)
            elif isinstance(action, Cancel):
                self._cancel()
            elif isinstance(action, Signal):
                if self._before_stop.hold(action, self._go_on):
                    return
                self._signal(action.ranks, self._number(action))
            elif isinstance(action, Sweep):
                self._children.sweep(self._number(action))
            elif isinstance(action, Arm):
                self._arm(action.deadline)
            else:
                for kind in DeadlineKind:
                    self._loop.cancel(kind)
            self._actions.popleft()

    def _number(self, action: Signal | Sweep) -> int:
        return signal.SIGKILL if action.kill else self._limits.stop_signal

    def _arm(self, deadline: Deadline) -> None:
        kind = deadline.kind
        if self.life.phase.final:
            return  # a sweep just before has found nothing that it could be for
        seconds = self._limits.begin_deadline(kind, self._delay)
        if kind in (DeadlineKind.GRACE, DeadlineKind.NOTICE):
            self._tell_limits()
        if seconds is not None:

            def fire() -> None:
                at = time.monotonic_ns()
                self.handle(Deadline(kind, deadline.attempt, at, deadline.rank))

            # A later one of the group, or of this rank, replaces it.
            self._loop.after(kind if deadline.rank < 0 else (kind, deadline.rank), seconds, fire)

    def _tell_limits(self) -> None:
        ends = self._limits.grace_ends
        self._report("limits", self._limits.stop_signal, ends if ends < NEVER else None)

    # -- starting ranks

    def _expect(self, rank: int | None) -> None:
        """Expect the launcher to ask for the ranks of an attempt, or for one that starts again."""
        if rank is not None:
            process, self._processes[rank] = self._processes[rank], None
            if process is not None:
                self._children.clean(process)
            return
        self._limits.grace_ends = NEVER
        self._processes = [None] * self.life.nproc
        self._order = Order(self._loop, self._processes)
        self.outcomes.begin_attempt(self._processes, self._order)
        self._before_stop.begin_attempt(self._processes)
        self._children.begin_attempt()

    def spawn(self, jobs: list[dict[str, Any]], fds: list[int]) -> None:
        """Start ranks that the launcher has asked for, if they are still wanted."""
        wanted = [job for job in jobs if self._wants(job["rank"], job["attempt"])]
        self._forking.ask(wanted, fds)

    def _wants(self, rank: int, attempt: int) -> bool:
        known = self.life.ranks[rank]
        return known.state is Worker.PENDING and attempt == self.life.attempt + known.attempt

    def no_start(self, rank: int, attempt: int, stage: str, number: int, text: str) -> None:
        """Take note that the launcher could not make what a rank needs."""
        if self._wants(rank, attempt):
            self._start_failed(rank, stage, number, text, time.monotonic_ns())

    def started(self, rank: int, pid: int, at: int, sock: socket.socket | None) -> None:
        """Take note of a process that was started. sock: our end of its channel, if it has one."""
        channel = None if sock is None else self.outcomes.channel(rank, sock)
        process = self._processes[rank] = Process(rank, pid, at, channel)
        self._children.add(process)
        pidfd = pidfd_of(pid)
        self._report("process", rank, pid, at, pidfd, fds=() if pidfd < 0 else (pidfd,))
        self.handle(RankEvent(WorkerEvent.SPAWNED, rank, at))

    def failed(self, rank: int, stage: str, number: int, text: str) -> None:
        """Take note that a rank got no process."""
        if self.life.lives(rank):
            self._start_failed(rank, stage, number, text, time.monotonic_ns())

    def _start_failed(self, rank: int, stage: str, number: int, text: str, at: int) -> None:
        self._report("fault", rank, stage, number, text)
        self.handle(RankEvent(WorkerEvent.SPAWN_FAILED, rank, at, ok=False))

    def reached(self, rank: int) -> None:
        """Take note that a rank has reached its program."""
        if self.life.lives(rank):
            self.handle(RankEvent(WorkerEvent.READY, rank, time.monotonic_ns()))

    def _cancel(self) -> None:
        self._forking.cancel()
        at = time.monotonic_ns()
        for rank, known in enumerate(self.life.ranks):
            if known.state is Worker.PENDING:
                self.handle(RankEvent(WorkerEvent.CANCELLED, rank, at))

    # -- how they end

    def reap(self) -> None:
        """Take note of all that have ended."""
        self._children.reap()

    def _exited(
        self, process: Process, status: int, seconds: float, peak: int, fault: Fault | None
    ) -> None:
        rank, known = process.rank, self.life.ranks[process.rank]
        self._loop.hear_first()  # what ranks reported before, and deaths before, in their order
        at = time.monotonic_ns()
        if known.awaited or not self.life.lives(rank):
            return
        returned, torn = self.outcomes.last(process)
        if fault is not None:
            if self.life.lives(rank):
                self._start_failed(rank, *fault, at)
            return
        ok = status == 0 and (returned or not self._words["function"])
        doubt = 0
        if not ok:
            self.outcomes.one_fails(rank)
            at, doubt = self._order.failed(process, status, peak, at, known.stop_at)
        self._report("gone", rank, status, seconds, peak, at, doubt, torn)
        if not self._asks_about(rank, at, ok=ok):
            self.handle(RankEvent(WorkerEvent.EXITED, rank, at, ok))
            return
        known.awaited = True

        def decided(again: bool) -> None:
            known.awaited = False
            self.handle(RankEvent(WorkerEvent.EXITED, rank, at, ok, again))

        self._asked[rank] = decided
        self._report("ask", rank, self._attempt_of(rank))

    def _asks_about(self, rank: int, at: int, *, ok: bool) -> bool:
        """Whether it is to be decided if this rank, which is gone, starts again by itself."""
        life, known = self.life, self.life.ranks[rank]
        works = life.single and life.phase in (Phase.STARTING, Phase.RUNNING)
        by_itself = not ok and (known.stop_at is None or at < known.stop_at)
        return works and (known.failed_at is not None or by_itself) and not known.start_failed

    def _swept(self) -> None:
        """Take note that nothing is left of this attempt."""
        if not self.life.phase.final:
            self.handle(Swept(self.life.attempt))

    def _attempt_of(self, rank: int) -> int:
        return self.life.attempt + self.life.ranks[rank].attempt

    def answered(self, rank: int, attempt: int, again: bool, delay: float) -> None:
        """Take the launcher's answer to "ask": whether a single rank starts again."""
        if rank in self._asked and attempt == self._attempt_of(rank):
            self._delay = delay
            self._asked.pop(rank)(again)

    # -- signals

    def _signal(self, ranks: tuple[int, ...], number: int) -> None:
        chosen = [self._processes[r] for r in ranks if self.life.lives(r)]  # after a wait, perhaps
        reached, at = self._children.signal(int(number), [p for p in chosen if p is not None])
        if not reached:
            return
        for process in reached:
            if number not in process.signals:
                process.signals += (int(number),)
        there = [process.rank for process in reached]
        self._report("signalled", int(number), there, at)
        kind = WorkerEvent.KILL_SENT if number == signal.SIGKILL else WorkerEvent.STOP_SENT
        for rank in there:
            if self.life.lives(rank):
                self.handle(RankEvent(kind, rank, at))

    def signal(self, number: int, ranks: list[int], only_caught: bool, at: int) -> None:
        """Send a signal that was asked for at a time to the processes that these ranks had then.

        only_caught: to those that have a handler for it.
        """
        self.reap()
        for rank in ranks:
            process = self._processes[rank]
            if process is None or process.reaped or process.began > at or not self.life.lives(rank):
                continue
            state = state_of(process.pid) if only_caught else None
            if not only_caught or (state is not None and state.catches(number)):
                try:
                    os.kill(process.pid, number)
                except OSError:
                    pass  # it has become another user

    # -- the launcher's wishes

    def stop(self, request: dict[str, Any]) -> None:
        """End the group, as it is asked for.

        request: `kill`, `signal`, `grace`, `notice` as of `StopRequest`; `stacks`: seconds by which
        the stacks of the ranks may delay the signal, 0 for none.
        """
        self._before_stop.asked = float(request.get("stacks", 0.0))
        hurry = self._limits.change(request, waiting=self.life.waiting)
        self._tell_limits()
        notice = self._limits.notice > 0
        self.handle(StopWanted(bool(request.get("kill")), hurry=hurry, notice=notice))

    def end_patience(self) -> None:
        """End a group that has failed, or fails, at once."""
        self._limits.patience = 0.0
        if self.life.waiting:
            self._arm(Deadline(DeadlineKind.PATIENCE, self.life.attempt))

    def hung(self, rank: int, at: int, fresh: bool) -> None:
        """Take a rank for hung, if it still works. fresh: the stacks have just been taken."""
        known = self.life.ranks[rank]
        if known.state is Worker.RUNNING and not known.awaited and known.failed_at is None:
            self._before_stop.hung(rank, fresh)
            self.handle(RankEvent(WorkerEvent.HUNG, rank, at, ok=False))

    def suspend(self) -> None:
        """Stop all ranks, and all clocks, until `resume`."""
        self._loop.hold()
        self._children.hold(signal.SIGSTOP)
        self._report("suspended")

    def resume(self) -> None:
        """Let the ranks go on."""
        self._children.hold(signal.SIGCONT)
        self.go_on()

    def hold(self) -> None:
        """Let all clocks stand still, until `go_on`."""
        self._loop.hold()

    def go_on(self) -> None:
        """Let clocks go on."""
        self._limits.grace_ends += self._loop.release()
        self._tell_limits()

    def take_stacks(self, which: int, seconds: float) -> None:
        """Take the stacks of all ranks, and tell the launcher."""
        self._before_stop.take_stacks(which, seconds)

    def _go_on(self) -> None:
        """Carry out what has waited for stacks, and what comes after it."""
        waited = self._actions.popleft()
        assert isinstance(waited, Signal)
        self._actions.extendleft(reversed(self.life.after_waiting(waited)))
        self._carry_out()

    # -- descriptors

    @property
    def own(self) -> list[int]:
        """The descriptors that ranks are not to have."""
        return [*(each.fd for each in self.outcomes.channels), self._limits.board]

    def close(self) -> None:
        """Give up its descriptors and deadlines: the group is over."""
        self._loop.cancel_all()
        self._loop.release()
        self._before_stop.close()
        self.outcomes.close()
        self._limits.close()


# What the launcher can ask of a group, by the kind of message; see `protocol`.
WISHES: dict[str, Callable[..., None]] = {
    "no start": GroupRun.no_start,
    "stop": GroupRun.stop,
    "impatience": GroupRun.end_patience,
    "hung": GroupRun.hung,
    "signal": GroupRun.signal,
    "suspend": GroupRun.suspend,
    "resume": GroupRun.resume,
    "hold": GroupRun.hold,
    "go on": GroupRun.go_on,
    "look": GroupRun.take_stacks,
    "answer": GroupRun.answered,
}
