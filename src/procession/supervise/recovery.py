"""What follows a failure in a running group: whether it, or its rank, starts again.

Theory of operation. To decide, files are read that ranks have left, and the user's `on_failure` is
asked: both may take long, while other ranks are running. So the threads of the journal do that, and
the loop goes on. The group's own `Decider` decides, or, in a job over several nodes, its driver
(see `decided_by`). An answer that has not come when the group is to end is not waited for: nothing
starts again then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import Phase
from procession.supervise.conclusion import Outcomes
from procession.supervise.journal import Journal
from procession.supervise.link import Link
from procession.supervise.ranks import Ranks
from procession.system.eventloop import EventLoop
from procession.values.errors import GroupEnd
from procession.values.spec import Spec

# What is needed after a failure only is imported then.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.rules.restarting import Decision
    from procession.supervise.deciding import Decide, Decider

    Answer = Callable[[bool], None]
    Look = Callable[[], GroupEnd]


class Recovery:
    """Asks for a decision after a failure, and keeps the answer until it is carried out.

    files: ranks leave files, which are to be read first.

    delay: seconds until what was decided for last begins. said: what was decided last, in words.
    notes: for the report. running_since: to be set when all ranks run, in nanoseconds.
    """

    def __init__(
        self,
        spec: Spec,
        life: Lifecycle,
        loop: EventLoop,
        ranks: Ranks,
        link: Link,
        outcomes: Outcomes,
        journal: Journal,
        *,
        files: bool,
    ) -> None:
        self.delay = 0.0
        self.said = ""
        self.running_since = 0
        self._spec = spec
        self._life = life
        self._loop = loop
        self._ranks = ranks
        self._link = link
        self._outcomes = outcomes
        self._journal = journal
        self._files = files
        self._decider: Decider | None = None  # our own, made at the first failure
        self._elsewhere: Decide | None = None
        self._why = ""
        self._asked: dict[object, Answer] = {}  # whose answers are awaited

    @property
    def notes(self) -> list[str]:
        """What the report says about attempts before the last one, and why there is no other."""
        notes = self._decider.notes if self._decider is not None else []
        return [*notes, f"not started again: {self._why} [P409]"] if self._why else notes

    @property
    def decides(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._asked)

    @property
    def is_asked_for(self) -> bool:
        """Whether a decision is needed about a group of which nothing is left."""
        life = self._life
        if life.single or life.stop_wanted:  # single ranks were decided for when they failed
            return False
        wanted = self._spec.restart.max > 0 or self._spec.on_failure is not None
        return wanted and life.verdict() is Phase.FAILED

    def decide_for_group(self, answer: Answer) -> None:
        """Decide for a group that failed, and of which nothing is left; `answer` takes it."""
        began, self.running_since = self.running_since, 0
        self._ask(self._outcomes.of_group, began, None, answer)

    def decide_for_rank(self, rank: int, at: int, ok: bool, answer: Answer) -> None:
        """Decide for a single rank that is gone: when, and whether its exit was a good one."""
        known = self._life.ranks[rank]
        works = self._life.phase in (Phase.STARTING, Phase.RUNNING)
        failed = known.failed_at is not None or (
            not ok and (known.stop_at is None or at < known.stop_at)
        )
        if not (self._life.single and works and failed) or known.start_failed:
            answer(False)
            return
        if self._link.server.lost:
            self._why = "its forkserver was lost"
            answer(False)
            return
        began = self._ranks.records[rank].started_at
        self._ask(lambda: self._outcomes.of_single(rank), began, rank, answer)

    def settle(self) -> None:
        """Wait for no answer any more: the group is ended."""
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            answer(False)

    def decided_by(self, decide: Decide) -> None:
        """Leave decisions to somebody else, who also reports on them.

        decide: called in the loop's thread; it may answer in any.
        """
        self._elsewhere = decide

    def _ask(self, look: Look, began: int, rank: int | None, answer: Answer) -> None:
        """Read what ranks have left, decide, and give the answer, without blocking the loop.

        began: when what failed had begun to run, 0 if it never did.
        """
        from procession.rules.restarting import Decision
        from procession.supervise.deciding import Decider, said_of

        spec, elsewhere = self._spec, self._elsewhere
        key = object()
        self._asked[key] = answer
        self._decider = self._decider or Decider(
            spec.restart, spec.on_failure, self._journal.handlers, self._loop
        )
        own = self._decider

        def finish(end: GroupEnd, decided: Decision) -> None:
            if self._asked.pop(key, None) is None:
                return  # it was not waited for
            self.delay = decided.delay
            if decided.again:
                self.said = said_of(decided, end.attempt if rank is None else None)
            if elsewhere is None:
                own.take(decided)
            answer(decided.again)

        def decide(end: GroupEnd) -> None:
            if not end.failures:
                finish(end, Decision(False))
                return
            uptime = (end.failures[0].happened_at - began) / 1e9 if began else None
            if elsewhere is None:
                own.decide(end, uptime, rank, partial(finish, end))
            else:
                # The answer may come in another thread.
                request = self._loop.request
                elsewhere(end, uptime, rank, lambda decided: request(lambda: finish(end, decided)))

        def read() -> None:
            end = look()
            self._loop.request(lambda: decide(end))

        if self._files:
            self._journal.disk.do("reading what ranks have left", read, always=True)
        else:
            decide(look())
