"""What follows a failure: whether the run, or a single rank, starts again.

Theory of operation. It is decided by the rules, after files that ranks have left were read, and the
user's `on_failure` was asked: both may take as long as they like, while other ranks run. So threads
do that, and all else happens in the loop's thread. There is one decision for all machines, so that
restarts count once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from procession.driver.journal import Journal
from procession.explain.report import headline_of
from procession.rules.restarting import Decision, Restarts, codes_of, place_of
from procession.system.eventloop import EventLoop
from procession.values.errors import GroupEnd, Outcome
from procession.values.figures import duration
from procession.values.policy import Restart

Look = Callable[[], GroupEnd]
Done = Callable[[GroupEnd, Decision], object]

MOST_NOTES = 3  # about attempts before the last one


class Recovery:
    """Decides by a `Restart`, and by what `on_failure` says. For the loop's thread.

    journal: whose threads read files and call `on_failure`. reads: whether what is known of an end
    is read from files.
    """

    def __init__(
        self,
        rules: Restart,
        on_failure: Callable[[GroupEnd], object] | None,
        loop: EventLoop,
        journal: Journal,
        *,
        reads: bool,
    ) -> None:
        self._rules = rules
        self._on_failure = on_failure
        self._loop = loop
        self._journal = journal
        self._reads = reads
        self._restarts = Restarts(rules)
        self._before: deque[str] = deque(maxlen=MOST_NOTES)  # what is to be said about them
        self._why = ""

    def count(self, used: int) -> None:
        """Take note of restarts of the group that somebody else has decided, just now."""
        self._restarts.add(used, time.monotonic())

    def concerns(self, end: GroupEnd) -> bool:
        """Whether something is to be decided about an attempt that ended so.

        Where single ranks start again, that was decided when the rank failed; only the loss of a
        node is still to be decided about.
        """
        single = self._rules.single
        return any(not single or c.outcome is Outcome.NODE_LOST for c in end.failures[:1])

    def decide(self, look: Look, began: int, rank: int | None, done: Done) -> None:
        """Decide after a failure, and call `done`: at once, or later.

        look: says how the attempt ended, or the single rank that has failed. began: when all ranks
        ran, in nanoseconds of the monotonic clock; 0 if they never did. rank: which one fails and
        starts again by itself, None for all.
        """

        def judge(end: GroupEnd, refused: str = "") -> None:
            if refused or not end.failures:
                done(end, Decision(False, why=refused))
                return
            first = end.failures[0]
            since = began if rank is None else first.started_at
            uptime = (first.happened_at - since) / 1e9 if since else None
            done(end, self._judge(end, uptime, rank))

        def ask(end: GroupEnd) -> None:
            if self._on_failure is None or not end.failures:
                judge(end)
                return

            def call() -> None:
                refused = self._refusal(end)
                self._loop.request(lambda: judge(end, refused))

            self._journal.handlers.do_later("on_failure", call, always=True)

        def read() -> None:
            end = look()
            self._loop.request(lambda: ask(end))

        if self._reads:
            self._journal.disk.do_later("reading what ranks have left", read, always=True)
        else:
            ask(look())

    def note_decision(self, decided: Decision, end: GroupEnd, rank: int | None) -> str:
        """Take note of a decision that is followed; gives a restart in words, "" for none.

        Others came too late. end, rank: which it is about.
        """
        self._why = decided.why
        if not decided.again:
            return ""
        self._before.append(decided.head)
        when = f" in {duration(decided.delay)}" if decided.delay >= 0.05 else ""
        if rank is None:
            return f"{decided.head}; attempt {end.attempt + 1} starts{when}"
        return f"{decided.head}; it starts again{when} ({decided.count})"

    @property
    def none_left(self) -> bool:
        """Whether nothing starts again from now on, whatever fails."""
        return self._restarts.none_left

    @property
    def notes(self) -> list[str]:
        """What the report says of the latest restarts, and why there is no other one."""
        why = [f"not restarted: {self._why} [P409]"] if self._why else []
        return [*self._before, *why]

    def _refusal(self, end: GroupEnd) -> str:
        """Ask `on_failure`; gives why it wants no restart, "" if it has nothing against it."""
        assert self._on_failure is not None
        try:
            answer = self._on_failure(end)
        except BaseException as e:  # sys.exit() too: the failure is still to be reported
            from procession.worker.description import text_of

            return f"on_failure raised {type(e).__name__}: {text_of(e)}"
        return "on_failure said so" if answer is False else ""

    def _judge(self, end: GroupEnd, uptime: float | None, rank: int | None) -> Decision:
        cause = end.failures[0]
        if cause.outcome is Outcome.NODE_LOST and self._rules.node_losses is not None:
            decided = self._restarts.decide_for_lost_node()
        else:
            now = time.monotonic()
            decided = self._restarts.decide(now, uptime, place_of(cause), codes_of(end), rank)
        head = headline_of(end)
        return decided.__replace__(
            head=head if rank is not None else f"attempt {end.attempt} failed: {head}"
        )
