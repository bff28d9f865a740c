"""Random walks: more ranks and restarts than the exhaustive walk can hold, and real times."""

import copy

import pytest
from hypothesis import Phase as Stage
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seams.rules import Deadline, DeadlineKind, Phase, RankEvent, StopWanted

from .world import ALIVE, KEPT, NOT_THERE_YET, World

# 300 groups take 5 s of one core; the limit is for a machine on which they wait for it.
pytestmark = pytest.mark.timeout(600)

STEP = 1000  # nanoseconds between two events


class Groups(RuleBasedStateMachine):
    """A group of 1 to 6 ranks with 0 to 3 restarts, and whatever may happen to it.

    patience: none, some, or without an end (its deadline is never armed).
    """

    def __init__(self):
        super().__init__()
        self.world = None
        self.now = 0

    @initialize(
        nproc=st.integers(1, 6),
        restarts=st.integers(0, 3),
        patience=st.sampled_from(["none", "some", "endless"]),
    )
    def begin(self, nproc, restarts, patience):
        self.world = World(nproc, restarts, patience != "none", expires=patience == "some")
        self.world.begin()

    def _events(self, late_by):
        """List what may come; failures may have happened before what we heard last."""
        self.now += STEP
        sent = [r.stop_at for r in self.world.life.ranks if r.stop_at is not None]
        happened = max(self.now - late_by, 1)
        happened = min([happened, *(at - 1 for at in sent)])
        return list(self.world.events((happened,), self.now, self.now))

    def _tell(self, event):
        before = copy.deepcopy(self.world.life)
        actions = self.world.tell(event)
        for kept in KEPT:
            assert kept(before, event, self.world.life, actions), kept.__name__

    @precondition(lambda self: not self.world.life.phase.final)
    @rule(data=st.data(), late_by=st.integers(0, 5 * STEP).filter(lambda n: n % STEP))
    def something_happens(self, data, late_by):
        events = self._events(late_by)
        wishes = [e for e in events if isinstance(e, (RankEvent, Deadline))] or events
        self._tell(data.draw(st.sampled_from(wishes)))

    @precondition(lambda self: not self.world.life.phase.final)
    @rule(data=st.data())
    def all_goes_well(self, data):
        """Prefer what a group without faults sees, so that walks get past the start."""
        events = self._events(1)
        well = [e for e in events if not isinstance(e, (StopWanted, Deadline)) and good(e)]
        self._tell(data.draw(st.sampled_from(well or events)))

    @precondition(lambda self: not self.world.life.phase.final)
    @rule(kill=st.booleans(), hurry=st.booleans())
    def somebody_wants_a_stop(self, kill, hurry):
        self._tell(StopWanted(kill, hurry))

    @precondition(lambda self: self.world.life.phase.final)
    @rule(kill=st.booleans(), hurry=st.booleans())
    def too_late(self, kill, hurry):
        assert self.world.tell(StopWanted(kill, hurry)) == []

    @invariant()
    def something_must_come(self):
        if self.world is None or self.world.life.phase.final:
            return
        if self._at_work():
            assert any(r.state in ALIVE for r in self.world.life.ranks)
        else:
            assert self.world.armed

    def _at_work(self):
        """Say whether the group waits for its ranks alone, and for nothing by the clock."""
        life, armed = self.world.life, self.world.armed
        starting = any(r.state in NOT_THERE_YET for r in life.ranks)
        waiting = life.waiting and not starting and DeadlineKind.PATIENCE not in armed
        return waiting or life.phase is Phase.RUNNING

    def teardown(self):
        """From wherever the walk stopped, the clock ends the group, or a request does."""
        if self.world is None or self.world.life.phase.final:
            return
        if self._at_work():
            self._tell(StopWanted())
        steps = 0
        while not self.world.life.phase.final:
            deadline = min(
                self.world.armed.values(), key=lambda d: list(DeadlineKind).index(d.kind)
            )
            self.now += STEP
            self._tell(Deadline(deadline.kind, deadline.attempt, self.now))
            steps += 1
            assert steps <= len(DeadlineKind)


def good(event):
    return getattr(event, "ok", True)


Groups.TestCase.settings = settings(
    max_examples=300,
    stateful_step_count=40,
    deadline=None,
    report_multiple_bugs=False,
    phases=[Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink],  # explaining takes minutes
)
TestGroups = Groups.TestCase
