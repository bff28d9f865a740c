"""What happens to a group is noted in its journal, with the facts that users find there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from procession.driver.journal import Journal
from procession.driver.ranks import Ranks
from procession.explain.facts import facts_of_failure, facts_of_rank, facts_of_start
from procession.explain.records import RankRecord
from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import RankEvent
from procession.rules.tables import Phase, Worker, WorkerEvent
from procession.values.errors import RankEnd
from procession.values.events import NO_FACTS
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = {kind: kind.name.lower() for kind in WorkerEvent}  # what their events are called


class Noting:
    """Notes what happens to one group, in the thread of its loop.

    notes: about the whole, for the report.
    """

    def __init__(
        self, spec: Spec, run_id: str, life: Lifecycle, ranks: Ranks, journal: Journal
    ) -> None:
        self._spec = spec
        self._run_id = run_id
        self._life = life
        self._ranks = ranks
        self._journal = journal
        self.notes: list[str] = []

    def rank(self, event: RankEvent, stop_signal: int, *, lost: bool) -> None:
        """Note an event of a rank. lost: its agent is."""
        record = self._ranks.records[event.rank]
        detail, facts = facts_of_rank(self._spec, self._life, event, record, stop_signal, lost)
        self._note(KINDS[event.kind], record, event.at, detail, facts)

    def starts_again(self, rank: int, why: str) -> None:
        """Note that a single rank, which is gone, starts again, if it does."""
        record = self._ranks.records[rank]
        if record.exited_at and self._life.ranks[rank].state is Worker.PENDING:
            self._note("restarting", record, time.monotonic_ns(), why)

    def lost(self, rank: int, at: int) -> None:
        """Note that a rank is still there long after SIGKILL."""
        self._note("lost", self._ranks.records[rank], at)

    def _note(
        self,
        kind: str,
        record: RankRecord,
        at: int,
        detail: str = "",
        facts: Mapping[str, Any] = NO_FACTS,
    ) -> None:
        self._journal.note(kind, record.rank, record.attempt, at, record.pid, detail, facts)

    def phase(self, phase: Phase, why: str, failure: Callable[[], RankEnd | None]) -> None:
        """Note that the group has come to another phase.

        why: what was decided last, in words. failure: says how the rank ended that failed first.
        """
        detail, facts = "", NO_FACTS
        if phase is Phase.STARTING:
            facts = facts_of_start(self._spec, self._run_id)
        elif phase is Phase.BACKOFF:
            detail = why
        elif phase is Phase.FAILED:
            end = failure()
            facts = facts_of_failure(end) if end is not None else NO_FACTS
        attempt = self._life.attempt
        self._journal.note(phase.name.lower(), None, attempt, detail=detail, facts=facts)

    def preloaded(self, unfit: str, failed: list[str], culprit: str) -> None:
        """Note why ranks cannot be forked, by which module's import, and what is missing."""
        if unfit:
            from procession.preload.started import told_of

            said = told_of(self._spec, unfit, culprit)
        elif failed and isinstance(self._spec.preload, tuple):
            names = ", ".join(failed)
            said = f"preload: {names} could not be imported, and is left to the ranks [P403]"
        else:
            return
        import logging

        self.notes.append(said)
        log = logging.getLogger("procession")
        self._journal.handlers.do("logging", lambda: log.warning("procession: %s", said))
