"""Lifecycles that are told events in words, for rules by example."""

from seams.rules import (
    Arm,
    Deadline,
    DeadlineKind,
    Lifecycle,
    Phase,
    RankEvent,
    StopWanted,
    Swept,
    WorkerEvent,
)

START, PATIENCE, NOTICE, LINGER, GRACE, REAP, START_IT, LINGER_IT, REAP_IT = DeadlineKind


class Script:
    """A lifecycle that is told events in words; `at` grows by ten where it is not given."""

    def __init__(self, nproc, patient=False, single=False):
        self.life = Lifecycle(nproc, patient, single)
        self.first = self.life.begin_attempt()
        self.at = 0

    def __call__(self, what, rank=None, *, at=None, ok=True, attempt=None, **wish):
        self.at += 10
        at = self.at if at is None else at
        if attempt is None:
            single = self.life.single and rank is not None
            attempt = self.life.ranks[rank].attempt if single else self.life.attempt
        if what == "stop wanted":
            return self.life.handle(StopWanted(**wish))
        if what == "swept":
            return self.life.handle(Swept(attempt))
        if what.endswith("deadline"):
            kind = DeadlineKind[what.split()[0].upper() + ("" if rank is None else "_IT")]
            return self.life.handle(Deadline(kind, attempt, at, -1 if rank is None else rank))
        kind = WorkerEvent[what.replace(" ", "_").upper()]
        return self.life.handle(RankEvent(kind, rank, at, ok))

    def running(self):
        """Bring every rank into its program."""
        for r in range(self.life.nproc):
            self("spawned", r)
            self("ready", r)
        assert self.life.phase is Phase.RUNNING
        return self

    @property
    def phase(self):
        return self.life.phase

    @property
    def states(self):
        return [rank.state for rank in self.life.ranks]

    @property
    def endings(self):
        return [rank.ended for rank in self.life.ranks]


def arm(kind, attempt=0, rank=-1):
    return Arm(Deadline(kind, attempt, rank=rank))
