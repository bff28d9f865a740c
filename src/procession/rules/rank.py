"""What the lifecycle knows of one rank in one attempt."""

from __future__ import annotations

from procession.rules.messages import RankEvent
from procession.rules.tables import GONE, WORKER_TABLE, Ended, Worker, WorkerEvent
from procession.values.base import Record


class Rank(Record):
    """The state of a rank's process, and the facts from which its ending is known.

    asked: whether it was chosen to get a signal. stop_at: when the first signal was sent.
    failed_nth: its number in the order in which failures were heard of, from 1. awaited: its
    process is known to be gone, and it is being decided whether it starts again.
    """

    state: Worker = Worker.PENDING
    reported: bool = False
    reported_ok: bool = False
    asked: bool = False
    stop_at: int | None = None
    failed_at: int | None = None
    failed_nth: int = 0
    start_failed: bool = False
    ended: Ended | None = None
    reported_at: int = 0
    awaited: bool = False

    @property
    def gone(self) -> bool:
        """Whether nothing is expected of it any more."""
        return self.state in GONE

    def may(self, kind: WorkerEvent) -> bool:
        """Whether this can happen to it now."""
        return WORKER_TABLE.get((self.state, kind)) is not None

    def move(self, event: RankEvent) -> None:
        """Take an event that can happen to it."""
        self.state = WORKER_TABLE[self.state, event.kind]
        self._note(event)
        if self.state is Worker.LOST:
            self.ended = Ended.LOST
        elif self.state is Worker.EXITED:
            self.ended = self._ending(event.kind)

    def _note(self, event: RankEvent) -> None:
        """Write down how the rank is ending; each fact is written once."""
        kind = event.kind
        before_stop = self.stop_at is None or event.at < self.stop_at
        if kind is WorkerEvent.REPORTED and not self.reported and before_stop:
            self.reported, self.reported_ok, self.reported_at = True, event.ok, event.at
            if not event.ok and (self.failed_at is None or event.at < self.failed_at):
                self.failed_at = event.at
        elif kind in (WorkerEvent.STOP_SENT, WorkerEvent.KILL_SENT) and self.stop_at is None:
            self.stop_at = event.at
            if self.reported and self.reported_at >= event.at and not self.start_failed:
                # Its report of the signal was heard before the news that the signal was sent.
                self.reported = self.reported_ok = False
                if self.failed_at == self.reported_at:
                    self.failed_at = None
        elif kind in (WorkerEvent.SPAWN_FAILED, WorkerEvent.START_DEADLINE):
            self.start_failed = True
            if self.failed_at is None and self.stop_at is None:
                self.failed_at = event.at
        elif kind is WorkerEvent.HUNG:
            if self.failed_at is None and not self.reported:
                self.failed_at = event.at
        elif kind is WorkerEvent.EXITED:
            if self.failed_at is None and not event.ok and before_stop:
                self.failed_at = event.at

    def _ending(self, last: WorkerEvent) -> Ended:
        if self.failed_at is not None:
            return Ended.FAILED
        if last in (WorkerEvent.CANCELLED, WorkerEvent.SPAWN_FAILED):
            return Ended.NEVER_STARTED
        if self.stop_at is not None and not self.reported_ok:
            return Ended.STOPPED
        return Ended.FINISHED
