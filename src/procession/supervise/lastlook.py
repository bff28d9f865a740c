"""The stacks of a group's ranks: on request at any time, and before a group that failed is ended.

Theory of operation. A failed group's first stop signal is put off while its ranks write their
stacks, as a rule for a few milliseconds: where they were says more than how they died. The
lifecycle does not know of this delay: to it, the signal is just sent a moment later, and a rank
that ends before has ended by itself, as always between a failure and the signal. The delay has a
limit, and a request to stop ends it. Reading the stacks and writing them down comes after the
signal.

A rank that has reported its failure waits meanwhile (see `worker.outcome`): at its exit, its peers
would notice the end of their connections, and fail as well, before they get the signal.

The news that a rank has reached its program may come after the failure of another one, on a busy
machine: they come from the forkserver, and the failure does not. So ranks of which that is not
known are asked as well, and told of if they are in their program.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import Signal
from procession.rules.tables import GONE, Phase, Worker
from procession.supervise.ranks import Ranks
from procession.system.eventloop import EventLoop
from procession.system.threads import Errands
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.explain.stacks.taking import Taken, Taking
    from procession.explain.stacks.text import Stack
    from procession.output.wiring import Files

    Done = Callable[[list[Taken]], None]

MOST_SECONDS = 0.15  # by which stacks may delay the stop signal
FRESH_NS = 1_000_000_000  # what was seen so long ago need not be looked at again


class LastLook:
    """Takes the stacks of a group's ranks; one taking at a time, the others wait.

    file: the path of those of the last look, "" where there is none.
    """

    def __init__(
        self,
        spec: Spec,
        life: Lifecycle,
        loop: EventLoop,
        ranks: Ranks,
        run: Files,
        disk: Errands,
    ) -> None:
        self._spec = spec
        self._life = life
        self._loop = loop
        self._ranks = ranks
        self._run = run
        self._disk = disk
        self._taking: Taking | None = None
        self._queue: deque[tuple[Collection[int] | None, float, Done]] = deque()
        self._asked: list[tuple[Collection[int] | None, float, Done]] = []  # being taken
        self._due = True  # there was no last look in this attempt
        self._holding = False
        self._closed = False
        self._written = False
        self.file = ""
        self._taken: list[Taken] = []
        self._unsure: set[int] = set()  # of which it was not known that they are in their program
        self._taken_at = 0
        self._read: list[Stack] | None = None

    @property
    def first(self) -> int:
        """The number that rank 0 has in the whole job."""
        return self._spec.node.first(self._spec.nproc)

    def begin(self) -> None:
        """Forget what was seen in the attempt before."""
        self._due, self._written, self.file = True, False, ""
        self._taken, self._taken_at, self._read = [], 0, None
        self._unsure = set()

    # -- before the stop signal

    def hold(self, action: Signal, go_on: Callable[[], None]) -> bool:
        """Whether a signal has to wait for stacks; `go_on` is called when it may be sent."""
        life = self._life
        if not self._due or action.kill or life.stop_wanted or not self._spec.hang.stacks:
            return False
        if not life.failures or life.phase is not Phase.STOPPING:
            return False  # or a single rank is ended, to start again
        self._due = False
        if any(rank.start_failed for rank in life.ranks):
            return False  # where the others are does not explain that
        wanted = [r for r in action.ranks if self._answers(r)]
        if not wanted or time.monotonic_ns() - self._taken_at < FRESH_NS:
            return False
        self._unsure = {r for r in wanted if life.ranks[r].state is Worker.STARTING}
        self._holding = True
        at_once = True

        def seen(taken: list[Taken]) -> None:
            self._holding = False
            self.keep(taken)
            if not at_once:
                go_on()

        self._queue.appendleft((wanted, MOST_SECONDS, seen))
        if self._taking is not None:
            self._taking.finish()  # which begins with the first in the queue
        else:
            self._next()
        at_once = False
        return self._holding

    def _answers(self, r: int) -> bool:
        rank = self._life.ranks[r]
        failed = rank.failed_at is not None and not self._ranks.records[r].hung
        lives = rank.state in (Worker.STARTING, Worker.RUNNING)
        return lives and not failed and self._spec.runs_python(r)

    def end_now(self) -> None:
        """Let a signal that waits go out at once."""
        if self._holding and self._taking is not None:
            self._taking.finish()

    # -- at any time

    def look(self, seconds: float, done: Done) -> None:
        """Take the stacks of all that have a process, within `seconds`; none after `close`."""
        if self._closed:
            done([])
            return
        self._queue.append((None, seconds, done))
        self._next()

    def _next(self) -> None:
        if self._taking is not None or not self._queue:
            return
        self._asked = [self._queue.popleft()]
        chosen, seconds, done = self._asked[0]
        records = self._ranks.records
        wanted = [
            (r.rank, r.pid, self._ranks.sources[r.rank].pidfd)
            for r in records
            if r.pid is not None
            and (chosen is None or r.rank in chosen)
            and self._life.ranks[r.rank].state not in GONE
        ]

        def over(taken: list[Taken]) -> None:
            self._taking = None
            self._asked.clear()
            done(taken)
            self._next()

        try:
            from procession.explain.stacks.taking import Taking
        except (ImportError, OSError):  # there is no descriptor left to import with
            over([])
            return
        self._taking = Taking(self._loop, wanted, seconds, self._ranks.lives, over)
        self._taking.start()

    # -- what was seen

    def keep(self, taken: list[Taken]) -> None:
        """Keep these stacks as the last look of this attempt."""
        self._taken, self._taken_at, self._read = taken, time.monotonic_ns(), None
        self._written = False

    @property
    def stacks(self) -> list[Stack]:
        """What was seen of ranks at the last look of this attempt, in their order."""
        if not self._taken:
            return []
        if self._read is None:
            try:
                from procession.explain.stacks.text import stack_of
            except (ImportError, OSError):
                return []
            read = [
                stack_of(self.first + t.rank, t.pid, t.state, t.letter, t.text) for t in self._taken
            ]
            self._read = [s for s in read if s.frames or s.rank - self.first not in self._unsure]
        return self._read

    def write(self) -> None:
        """Write down what was seen, if files are kept."""
        if self._written or not self._taken:
            return
        self._written = True
        if not self.stacks:  # they are read here, while ranks end, and not after
            return
        from procession.explain.stacks.merge import whole

        if self._run.kept:
            attempt, text = self._life.attempt, whole(self.stacks)

            def write() -> None:
                path = self._run.write_stacks(attempt, text)
                if attempt == self._life.attempt:
                    self.file = path

            self._disk.do("writing stacks.txt", write)

    def close(self) -> None:
        """Take nothing any more; those who still wait get an empty list."""
        self._closed = True
        if self._taking is not None:
            self._taking.drop()
            self._taking = None
        asked = [] if self._holding else self._asked  # then it is a signal that waits
        for _, _, done in [*asked, *self._queue]:
            done([])
        self._asked.clear()
        self._queue.clear()
