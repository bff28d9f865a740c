"""Random interleavings on a virtual clock: the cause is what truly came first, in bounded time.

PROCESSION_INTERLEAVINGS (1500): how many groups. PROCESSION_FUZZ_SEED: of the first one; with
PROCESSION_INTERLEAVINGS=1 it is run alone.
"""

import os
import random

import pytest

from seams.rules import Phase, Worker

from .simulated import GRACE, LINGER, NEVER, NOTICE, PATIENCE, REAP, SECONDS, Simulation

COUNT = int(os.environ.get("PROCESSION_INTERLEAVINGS", "1500"))
MOST = SECONDS[NOTICE] + SECONDS[GRACE] + SECONDS[LINGER] + 2 * SECONDS[REAP] + 1

pytestmark = pytest.mark.timeout(120 + COUNT // 50)


def simulate(seed):
    """Run a group, and give it when it has ended."""
    chance = random.Random(seed)
    patient = chance.random() < 0.3
    group = Simulation(chance, chance.randint(1, 6), chance.randint(0, 3), patient)
    for _ in range(chance.choice((0, 0, 1, 2))):
        wish = {chance.choice(("kill", "hurry", "notice")): True} if chance.random() < 0.5 else {}
        at = chance.choice((0.005, 0.05, 2.0, 150.0)) * chance.uniform(0.1, 2.0)
        group.at(at, lambda wish=wish: group.want_stop(**wish))
    group.at(2000.0, lambda: group.want_stop())  # for ranks that live on
    group.run()
    return group, patient


def judge(group, patient):
    """Compare how the group ended with what truly happened in its last attempt."""
    life, ranks = group.life, group.ranks
    assert life.phase.final
    started = [r for r, rank in enumerate(life.ranks) if not rank.start_failed]
    truly = {
        r: ranks[r].failed for r in started if ranks[r].failed < min(ranks[r].signalled, NEVER)
    }
    named = [r for r in life.failures if r in started]
    assert set(named) == set(truly), (named, truly)
    assert named == sorted(truly, key=lambda r: int(truly[r] * 1e9)), (named, truly)
    lost = any(rank.state is Worker.LOST for rank in life.ranks)
    failed = bool(life.failures) or lost
    assert (life.phase is Phase.FAILED) == failed
    if life.phase is Phase.SUCCEEDED:
        assert all(rank.finished < NEVER for rank in ranks)
    if life.phase is Phase.STOPPED:
        assert group.stop_wanted
    if group.asked_to_end < NEVER:
        most = MOST + (SECONDS[PATIENCE] if patient else 0.0)
        took = group.ended - group.asked_to_end
        assert took <= most, f"{took:.3f} s until the end"
    alive = [r for r, rank in enumerate(ranks) if rank.gone == NEVER and rank.began < NEVER]
    if alive:
        assert life.left_behind


def test_interleavings():
    first = int(os.environ.get("PROCESSION_FUZZ_SEED") or random.randrange(1 << 32))
    ends = dict.fromkeys(("FAILED", "STOPPED", "SUCCEEDED"), 0)
    for seed in range(first, first + COUNT):
        try:
            group, patient = simulate(seed)
            judge(group, patient)
        except AssertionError as e:
            raise AssertionError(
                f"PROCESSION_FUZZ_SEED={seed} PROCESSION_INTERLEAVINGS=1: {e}"
            ) from e
        ends[group.life.phase.name] += 1
    print(f"{COUNT} groups from seed {first}: {ends}")
    if COUNT > 500:  # all kinds of ends were there
        assert min(ends.values()) > COUNT // 50
