"""What follows a failure in a running group: whether it, or its rank, starts again."""

from __future__ import annotations

import time

from procession.ends import group_end, rank_end
from procession.errors import GroupEnd
from procession.lifecycle import Lifecycle, Phase
from procession.rankprocesses import Processes
from procession.spawner import Spawner
from procession.spec import Spec

# What is needed after a failure only is imported then.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.restarting import Restarts

MOST_NOTES = 3  # about attempts before the last one


class Recovery:
    """Decides by the group's `Restart`, and by what its `on_failure` says.

    delay: seconds until what was decided for last begins. said: what was decided last, in words.
    notes: for the report. running_since: to be set when all ranks run, in nanoseconds.
    """

    def __init__(self, spec: Spec, life: Lifecycle, processes: Processes, spawner: Spawner) -> None:
        self.delay = 0.0
        self.said = ""
        self.running_since = 0
        self._spec = spec
        self._life = life
        self._processes = processes
        self._spawner = spawner
        self._restarts: Restarts | None = None
        self._before: list[str] = []  # what is to be said about failures before the last one
        self._why = ""

    @property
    def notes(self) -> list[str]:
        """What the report says about attempts before the last one, and why there is no other."""
        left_out = len(self._before) - MOST_NOTES
        more = [f"({left_out} earlier failures are in events.jsonl)"] if left_out > 0 else []
        why = [f"not started again: {self._why}"] if self._why else []
        return [*more, *self._before[-MOST_NOTES:], *why]

    @property
    def is_asked_for(self) -> bool:
        """Whether a group that is gone now may have to start again, or somebody hears of it."""
        life = self._life
        if life.single or life.stop_wanted:  # single ranks were decided for when they failed
            return False
        somebody = self._spec.restart.max > 0 or self._spec.on_failure is not None
        return somebody and life.verdict() is Phase.FAILED

    def starts_group_again(self) -> bool:
        """Decide for a group that failed, and of which nothing is left."""
        self._why = ""
        end = group_end(self._spec, self._life, self._processes.records, self._spawner, (), False)
        if not end.failures:
            return False
        uptime = None
        if self.running_since:
            uptime = (end.failures[0].happened_at - self.running_since) / 1e9
        self.running_since = 0
        again = self._decide(end, uptime, None)
        if again:
            from procession.report import headline

            attempt = self._life.attempt
            head = f"attempt {attempt} failed: {headline(end.failures[0], end.nproc)}"
            self._before.append(head)
            self.said = f"{head}; attempt {attempt + 1} {_in(self.delay)}"
        return again

    def starts_rank_again(self, rank: int, at: int, ok: bool) -> bool:
        """Decide for a single rank that is gone: when, and whether its exit was a good one."""
        known = self._life.ranks[rank]
        works = self._life.phase in (Phase.STARTING, Phase.RUNNING)
        failed = known.failed_at is not None or (
            not ok and (known.stop_at is None or at < known.stop_at)
        )
        if not (self._life.single and works and failed) or known.start_failed:
            return False
        if self._processes.server_lost:
            self._why = "its forkserver was lost"
            return False
        record = self._processes.records[rank]
        told = rank_end(self._spec, self._life, record, self._spawner, False, failed=True)
        end = GroupEnd(self._spec.name, self._spec.nproc, attempt=record.attempt, failures=(told,))
        again = self._decide(end, (told.happened_at - record.started_at) / 1e9, rank)
        if again:
            from procession.report import headline

            head = headline(told, self._spec.nproc)
            self._before.append(head)
            self.said = f"{head}; it {_in(self.delay)} again"
        return again

    def _decide(self, end: GroupEnd, uptime: float | None, rank: int | None) -> bool:
        if not self._asks(end):
            return False
        from procession.restarting import Restarts, codes_of, place_of

        if self._restarts is None:
            self._restarts = Restarts(self._spec.restart)
        place = place_of(end.failures[0])
        decided = self._restarts.decide(time.monotonic(), uptime, place, codes_of(end), rank)
        self.delay, self._why = decided.delay, decided.why
        return decided.again

    def _asks(self, end: GroupEnd) -> bool:
        """Ask `on_failure`, if there is one; False if it wants no restart."""
        if self._spec.on_failure is None:
            return True
        try:
            answer = self._spec.on_failure(end)
        except Exception as e:
            self._why = f"on_failure raised {type(e).__name__}: {e}"
            return False
        if answer is False:
            self._why = "on_failure said so"
        return answer is not False


def _in(delay: float) -> str:
    from procession.report import format_seconds

    return f"starts in {format_seconds(delay)}" if delay >= 0.05 else "starts"
