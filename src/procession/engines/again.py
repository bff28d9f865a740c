"""Whether an attempt of a job is followed by another one, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from procession.errors import GroupEnd, Outcome
from procession.policy import Restart
from procession.values import Value

# What is needed after a failure only is imported then.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.restarting import Restarts


class Verdict(Value):
    """again: another attempt follows, in `delay` seconds. said: what it follows, in words."""

    again: bool
    delay: float = 0.0
    said: str = ""


class Again:
    """Decides by the job's `Restart`, and by what its `on_failure` says.

    The loss of a node is counted apart from failures of ranks. notes: for the report.
    """

    def __init__(
        self, rules: Restart, on_failure: Callable[[GroupEnd], object] | None = None
    ) -> None:
        self.notes: list[str] = []
        self._rules = rules
        self._on_failure = on_failure
        self._restarts: Restarts | None = None
        self._lost = 0

    def decide(self, end: GroupEnd, uptime: float | None, done: Callable[[Verdict], None]) -> None:
        """Decide, and call `done`: at once, or, where `on_failure` is asked, in another thread.

        uptime: seconds for which all ranks had run, None if they never did.
        """
        if self._on_failure is None:
            done(self._verdict(end, uptime))
            return

        def ask() -> None:
            done(self._verdict(end, uptime) if self._is_willing(end) else Verdict(False))

        # It may take its time, and the driver has heartbeats to answer.
        threading.Thread(target=ask, name="procession-on-failure", daemon=True).start()

    def _is_willing(self, end: GroupEnd) -> bool:
        assert self._on_failure is not None
        try:
            if self._on_failure(end) is not False:
                return True
            self.notes.append("not started again: on_failure said so")
        except Exception as e:
            self.notes.append(f"not started again: on_failure raised {type(e).__name__}: {e}")
        return False

    def _verdict(self, end: GroupEnd, uptime: float | None) -> Verdict:
        from procession.report import headline
        from procession.restarting import Restarts, codes_of, place_of

        cause = end.failures[0]
        if cause.outcome is Outcome.NODE_LOST:
            self._lost += 1
            again, delay, why = self._lost <= self._rules.node_losses, 0.0, ""
            if not again and self._rules.node_losses:
                lost = "a node was" if self._lost == 2 else f"{self._lost - 1} nodes were"
                why = f"{lost} lost before, which is the most"
        else:
            self._restarts = self._restarts or Restarts(self._rules)
            decided = self._restarts.decide(
                time.monotonic(), uptime, place_of(cause), codes_of(end), None
            )
            again, delay, why = decided.again, decided.delay, decided.why
        if not again:
            self.notes += [f"not started again: {why}"] if why else []
            return Verdict(False)
        head = f"attempt {end.attempt} failed: {headline(cause, end.nproc)}"
        self.notes.append(head)
        return Verdict(True, delay, head)


__all__ = ["Again", "Verdict"]
