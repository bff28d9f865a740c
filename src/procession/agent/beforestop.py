"""Where the ranks of a group were when it failed: their stacks, taken before the first stop signal.

Theory of operation. The first stop signal of a group that failed is put off while its ranks write
their stacks, as a rule for a few milliseconds: where they were says more than how they died. The
lifecycle does not know of this delay: to it, the signal is just sent a moment later, and a rank
that ends before has ended by itself, as always between a failure and the signal.
"""

from __future__ import annotations

from procession.agent.protocol import STACK_SECONDS
from procession.agent.stacks import StackTaker
from procession.rules.tables import Phase, Worker

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from procession.agent.order import Process
    from procession.agent.stacks import Taken
    from procession.rules.lifecycle import Lifecycle
    from procession.rules.messages import Signal
    from procession.system.eventloop import EventLoop


class BeforeStop:
    """Takes the stacks of the ranks: before the stop signal, and on request.

    wanted: whether they are, before the signal. report: see `Run`.

    asked: seconds by which they may delay the signal of a stop that is asked for, 0 for none.
    """

    def __init__(
        self, life: Lifecycle, loop: EventLoop, report: Callable[..., None], *, wanted: bool
    ) -> None:
        self._life = life
        self._report = report
        self._wanted = wanted
        self._stacks = StackTaker(loop, life.lives)
        self._holds = False
        self.asked = 0.0

    def begin_attempt(self, processes: Sequence[Process | None]) -> None:
        """Begin with the ranks of an attempt."""
        self._processes = processes
        self._taken = False
        self._hung = set[int]()
        self._fresh = False

    def hung(self, rank: int, fresh: bool) -> None:
        """Take note that a rank hangs. fresh: the stacks have just been taken."""
        self._hung.add(rank)
        self._fresh = fresh

    def take_stacks(self, which: int, seconds: float) -> None:
        """Take the stacks of all ranks, and tell the launcher. which: its number for that."""
        self._stacks.take_stacks(self._living, seconds, lambda taken: self._tell(which, taken))

    def _living(self) -> list[tuple[int, int]]:
        there = (p for p in self._processes if p is not None and not p.reaped)
        return [(p.rank, p.pid) for p in there if self._life.lives(p.rank)]

    def _tell(self, which: int, taken: list[Taken]) -> None:
        said: list[Any] = [(t.rank, t.pid, t.letter, t.state, t.text, t.ran) for t in taken]
        self._report("stacks", which, self._life.attempt, said)

    def hold(self, action: Signal, go_on: Callable[[], None]) -> bool:
        """Whether a signal has to wait for stacks; `go_on` is called when it may be sent."""
        life = self._life
        if self._taken or action.kill or life.phase is not Phase.STOPPING:
            return False  # or a single rank is ended, to start again
        if not self.asked and (life.stop_wanted or not self._wanted):
            return False
        self._taken = True
        failed = life.failures or self.asked
        if not failed or any(rank.start_failed for rank in life.ranks) or self._fresh:
            return False  # where the others are does not explain that, or is known
        wanted = [each for each in self._living() if self._answers(each[0], action)]
        if not wanted:
            return False
        self._holds = at_once = True

        def seen(taken: list[Taken]) -> None:
            self._holds = False
            self._tell(0, taken)
            if not at_once:
                go_on()

        self._stacks.take_stacks(lambda: wanted, self.asked or STACK_SECONDS, seen, at_once=True)
        at_once = False
        return self._holds

    def _answers(self, r: int, action: Signal) -> bool:
        rank = self._life.ranks[r]
        lives = rank.state in (Worker.STARTING, Worker.RUNNING)
        return r in action.ranks and lives and (rank.failed_at is None or r in self._hung)

    def end_now(self) -> None:
        """Let a signal that waits go out at once."""
        if self._holds:
            self._stacks.finish()

    def close(self) -> None:
        """Take nothing any more."""
        self._stacks.close()
