"""Decides whether a failed group or rank starts again: by the rules, after a call of `on_failure`.

Theory of operation. There is one such decision, for an attempt of a group or job and for a single
rank. The supervisor of one machine has a `Decider` of its own. Over several nodes the driver has
the only one, so that restarts count once for the whole job, and `on_failure` is called in the
driver's process; the supervisors on the nodes ask it (see `engines.restarts`).

The user's `on_failure` may take as long as it likes: it is called in the thread of handlers, and
all else happens in the loop's thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from procession.explain.report import headline_of
from procession.rules.restarting import Decision, Restarts, codes_of, place_of
from procession.system.eventloop import EventLoop
from procession.system.threads import Errands
from procession.values.errors import GroupEnd, Outcome
from procession.values.figures import duration
from procession.values.policy import Restart

Done = Callable[[Decision], object]
# Decides about a failure, for the given uptime and single rank (None: for all), and calls `Done`.
Decide = Callable[[GroupEnd, float | None, int | None, Done], None]

MOST_NOTES = 3  # about attempts before the last one


class Decider:
    """Decides by a `Restart`, and by what `on_failure` says. For the loop's thread.

    handlers: whose thread calls `on_failure`.
    """

    def __init__(
        self,
        rules: Restart,
        on_failure: Callable[[GroupEnd], object] | None,
        handlers: Errands,
        loop: EventLoop,
    ) -> None:
        self._rules = rules
        self._on_failure = on_failure
        self._handlers = handlers
        self._loop = loop
        self._restarts = Restarts(rules)
        self._followed = 0  # attempts, or ranks, that started again
        self._before: deque[str] = deque(maxlen=MOST_NOTES)  # what is to be said about them
        self._why = ""

    def count(self, used: int) -> None:
        """Take note of restarts of the group that somebody else has decided, just now."""
        self._restarts.add(used, time.monotonic())

    def decide(self, end: GroupEnd, uptime: float | None, rank: int | None, done: Done) -> None:
        """Decide after a failure, and call `done`: at once, or later where `on_failure` is asked.

        uptime: seconds for which all ranks had run, or the one that failed; None if they never
        did. rank: which one fails and starts again by itself, None for all.
        """
        if self._on_failure is None:
            done(self._judge(end, uptime, rank))
            return

        def ask() -> None:
            refused = self._refusal(end)
            self._loop.request(
                lambda: done(Decision(False, why=refused))
                if refused
                else done(self._judge(end, uptime, rank))
            )

        self._handlers.do("on_failure", ask, always=True)

    def take(self, decided: Decision) -> None:
        """Take note of a decision that is followed; others came too late."""
        self._why = decided.why
        if decided.again:
            self._before.append(decided.head)
            self._followed += 1

    @property
    def none_left(self) -> bool:
        """Whether nothing starts again from now on, whatever fails."""
        return self._restarts.none_left

    @property
    def notes(self) -> list[str]:
        """What the report says about attempts before the last one, and why there is no other."""
        left_out = self._followed - len(self._before)
        failures = "failure is" if left_out == 1 else "failures are"
        said = f"({left_out} earlier {failures} not shown; a log directory's events.jsonl has all)"
        more = [said] if left_out > 0 else []
        why = [f"not started again: {self._why} [P409]"] if self._why else []
        return [*more, *self._before, *why]

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
        if cause.outcome is Outcome.NODE_LOST:
            decided = self._restarts.decide_for_lost_node()
        else:
            now = time.monotonic()
            decided = self._restarts.decide(now, uptime, place_of(cause), codes_of(end), rank)
        head = headline_of(end)
        return decided.__replace__(
            head=head if rank is not None else f"attempt {end.attempt} failed: {head}"
        )


def said_of(decided: Decision, attempt: int | None) -> str:
    """Say a restart in one line: what failed, and when what starts again.

    attempt: the one that failed, None if a single rank did.
    """
    when = f" in {duration(decided.delay)}" if decided.delay >= 0.05 else ""
    if attempt is not None:
        return f"{decided.head}; attempt {attempt + 1} starts{when}"
    return f"{decided.head}; it starts again{when} ({decided.count})"
