"""From the parts of nodes to the end of a job, without processes."""

import pytest

from seams.jobs import Clocks, NodePart, job_end
from seams.values import GroupEnd, Outcome, RankEnd


def part(node, *, failed=(), stacks=()):
    """Make the part of a node with 4 ranks of which those in `failed` failed by themselves."""
    ends = [
        RankEnd(node * 4 + r, 1, Outcome.EXITED, happened_at=node * 10 + r + 1, host=f"n{node}")
        for r in range(4)
    ]
    end = GroupEnd(
        "job",
        4,
        failures=tuple(e for e in ends if e.rank % 4 in failed),
        ended=tuple(e for e in ends if e.rank % 4 not in failed),
    )
    told = [{"said": said, "ranks": list(ranks)} for said, ranks in stacks]
    return NodePart(
        node, f"n{node}", node * 4, 4, Clocks(), values={}, pids={}, exits={}, end=end, stacks=told
    )


def end_of(*parts):
    return job_end("job", 4 * len(parts), 0, parts, [])


def test_ranks_of_all_nodes_that_are_at_the_same_place_share_a_line():
    end = end_of(
        part(0, stacks=[("waits in all_reduce (a.py:8)", range(4))], failed=[]),
        part(1, stacks=[("waits in all_reduce (a.py:8)", [4, 7]), ("is in load (b.py:2)", [5])]),
        part(2, failed=[0], stacks=[("is in all_reduce (a.py:8)", range(8, 12))]),
    )
    assert end.stacks == (
        "rank 5 is in load (b.py:2)",
        "9 ranks [0-4,7,9-11] wait in all_reduce (a.py:8)",
    )


def test_failures_of_all_nodes_stand_in_the_order_in_which_they_happened():
    end = end_of(part(0, failed=[3]), part(1, failed=[0, 1]))
    assert [(f.rank, f.host) for f in end.failures] == [(3, "n0"), (4, "n1"), (5, "n1")]
    assert [e.rank for e in end.ended] == [0, 1, 2, 6, 7]


@pytest.mark.parametrize(("doubt", "cause"), [(8, 4), (2, 3)], ids=["may be", "cannot be"])
def test_a_silent_death_that_may_have_been_the_first_is_the_cause(doubt, cause):
    """Its peers raise as soon as it is gone; that it is gone is seen some milliseconds later."""
    ms = 1_000_000
    raised = part(0, failed=[3])
    dead = part(1, failed=[0])
    (peer,), (silent,) = raised.end.failures, dead.end.failures
    peer = peer.__replace__(outcome=Outcome.RAISED, happened_at=100 * ms)
    silent = silent.__replace__(outcome=Outcome.SIGNALLED, happened_at=105 * ms, doubt=doubt * ms)
    raised.end = raised.end.__replace__(failures=(peer,))
    dead.end = dead.end.__replace__(failures=(silent,))
    end = end_of(raised, dead)
    assert end.failures[0].rank == cause
    assert len(end.together) == (2 if doubt == 8 else 1)


@pytest.mark.parametrize(("trip", "named"), [(1, [3]), (8, [3, 4])])
def test_as_far_as_clocks_of_machines_can_be_compared(trip, named):
    """That of n1 may be wrong by half a round trip; a rank of n0 failed 5 ms before its own."""
    ms = 1_000_000
    parts = part(0, failed=[2, 3]), part(1, failed=[0])
    parts[0].end = parts[0].end.__replace__(
        failures=tuple(
            end.__replace__(happened_at=(100 + 3 * n) * ms)
            for n, end in enumerate(reversed(parts[0].end.failures))
        )
    )
    (later,) = parts[1].end.failures
    parts[1].end = parts[1].end.__replace__(failures=(later.__replace__(happened_at=105 * ms),))
    parts[1].clocks.take_round_trip((90 - trip) * ms, (90 - trip // 2) * ms, 90 * ms)
    assert [end.rank for end in end_of(*parts).together] == named


def test_a_round_trip_says_less_of_clocks_the_longer_it_is_ago():
    second = 1_000_000_000
    clocks = Clocks()
    clocks.take_round_trip(0, 500, 1000)
    assert clocks.ours(7000) == 7000
    clocks.take_round_trip(
        second, second + 501_000, second + 1_000_000
    )  # a slow one, soon afterwards
    assert clocks.ours(7000) == 7000
    late = 3600 * second  # clocks differ by a millisecond now
    clocks.take_round_trip(late, late + 1_002_000, late + 4000)
    assert clocks.ours(late + 1_000_000) == late
    assert clocks.doubt(late + 4000) == 2000
