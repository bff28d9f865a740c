"""What follows a failure in a running group: whether it, or its rank, starts again.

Theory of operation. The agent asks, after a failure, and does not wait. To decide, files are read
that ranks have left, and the user's `on_failure` is asked: both may take long, while other ranks
are running. So the threads of the journal do that, and the loop goes on. The group's own `Decider`
decides, or, in a job over several nodes, its driver (see `decided_by`). An answer that has not come
when the group is to end is not waited for: nothing starts again then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from procession.driver.conclusion import DRAIN_SECONDS, Outcomes
from procession.driver.journal import Journal
from procession.prepare.resources import Resources
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import Phase
from procession.system.eventloop import EventLoop
from procession.values.base import Value
from procession.values.errors import GroupEnd
from procession.values.spec import Spec

# What is needed after a failure only is imported then.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.driver.deciding import Decide, Decider
    from procession.rules.restarting import Decision

    Look = Callable[[], GroupEnd]

GROUP = -1  # in the place of a rank: all of them


class Decided(Value):
    """What was decided for an attempt of a rank, or of the group.

    delay: seconds until the next one begins. said: what follows, in words.
    """

    attempt: int
    again: bool = False
    delay: float = 0.0
    said: str = ""


class Recovery:
    """Asks for a decision after a failure, and keeps the answer until it is carried out.

    answer: takes the rank (GROUP for all), the attempt that failed, whether it starts again, and in
    how many seconds.

    decided: what was decided last, by rank. notes: for the report. running_since: to be set when
    all ranks run, in nanoseconds.
    """

    def __init__(
        self,
        spec: Spec,
        life: Lifecycle,
        loop: EventLoop,
        outcomes: Outcomes,
        journal: Journal,
        resources: Resources,
        answer: Callable[[int, int, bool, float], None],
    ) -> None:
        self.running_since = 0
        self.decided = {GROUP: Decided(-1)}
        self._spec = spec
        self._life = life
        self._loop = loop
        self._outcomes = outcomes
        self._journal = journal
        self._resources = resources
        self._answer = answer
        self._decider: Decider | None = None  # our own, made at the first failure
        self._elsewhere: Decide | None = None
        self._asked = set[tuple[int, int]]()  # ranks and attempts that are being decided about

    @property
    def notes(self) -> list[str]:
        """What the report says about attempts before the last one, and why there is no other."""
        return self._decider.notes if self._decider is not None else []

    @property
    def is_asked_for(self) -> bool:
        """Whether a decision is needed about a group of which nothing is left."""
        life = self._life
        wanted = may_start_again(self._spec) and not (life.single or life.stop_wanted)
        return wanted and life.verdict() is Phase.FAILED

    def decide(self, rank: int, attempt: int) -> None:
        """Decide for a rank that has failed, and is gone; or, GROUP, when nothing of all is left.

        attempt: which failed. The agent may be lost after it has asked: then this is asked once
        more, and decided once.
        """
        if (rank, attempt) in self._asked:
            return
        known = self.decided.get(rank)
        if known is not None and known.attempt == attempt:
            self._answer(rank, attempt, known.again, known.delay)
            return
        self._asked.add((rank, attempt))
        if rank == GROUP:
            began, self.running_since = self.running_since, 0
            self._resources.streams.drain(DRAIN_SECONDS)  # a failure is also explained by it
            self._look(self._outcomes.of_group, began, rank, attempt)
        else:
            self._life.ranks[rank].awaited = True
            self._look(lambda: self._outcomes.of_single(rank), 0, rank, attempt)

    def _is_awaited(self, rank: int) -> bool:
        """Whether a decision still matters: the group is not being ended."""
        phases = (Phase.SWEEPING,) if rank == GROUP else (Phase.STARTING, Phase.RUNNING)
        return self._life.phase in phases and not self._life.stop_wanted

    def decided_by(self, decide: Decide) -> None:
        """Leave decisions to somebody else, who also reports on them.

        decide: called in the loop's thread; it may answer in any.
        """
        self._elsewhere = decide

    def _look(self, look: Look, began: int, rank: int, attempt: int) -> None:
        """Read what ranks have left, decide, and give the answer, without blocking the loop.

        began: when all ranks had begun to run, 0 if they never did.
        """
        from procession.driver.deciding import Decider, said_of
        from procession.rules.restarting import Decision

        spec, elsewhere, single = self._spec, self._elsewhere, None if rank == GROUP else rank
        self._decider = self._decider or Decider(
            spec.restart, spec.on_failure, self._journal.handlers, self._loop
        )
        own = self._decider

        def finish(end: GroupEnd, decided: Decision) -> None:
            self._asked.discard((rank, attempt))
            if not self._is_awaited(rank):
                return
            said = said_of(decided, end.attempt if single is None else None)
            self.decided[rank] = Decided(attempt, decided.again, decided.delay, said)
            if elsewhere is None:
                own.take(decided)
            self._answer(rank, attempt, decided.again, decided.delay)

        def decide(end: GroupEnd) -> None:
            if not end.failures:
                finish(end, Decision(False))
                return
            first = end.failures[0]
            since = began if single is None else first.started_at
            uptime = (first.happened_at - since) / 1e9 if since else None
            if elsewhere is None:
                own.decide(end, uptime, single, partial(finish, end))
            else:
                # The answer may come in another thread.
                request = self._loop.request
                elsewhere(
                    end, uptime, single, lambda decided: request(lambda: finish(end, decided))
                )

        def read() -> None:
            end = look()
            self._loop.request(lambda: decide(end))

        if self._resources.run_dir.kept:
            self._journal.disk.do("reading what ranks have left", read, always=True)
        else:
            decide(look())


def may_start_again(spec: Spec) -> bool:
    """Whether something is to be decided when the group has failed."""
    return spec.restart.max > 0 or spec.on_failure is not None
