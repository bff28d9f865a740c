"""From the parts of nodes to the end of a job, without processes."""

import pytest

from seams.jobs import Clocks, NodePart, job_end
from seams.values import GroupEnd, Outcome, RankEnd


def part(node, *, failed=(), stacks=()):
    """Make the part of a node with 4 ranks of which those in `failed` failed by themselves."""
    ends = [
        RankEnd(rank=r, pid=1, outcome=Outcome.EXITED, happened_at=node * 10 + r + 1)
        for r in range(4)
    ]
    end = GroupEnd(
        "job",
        4,
        failures=tuple(e for e in ends if e.rank in failed),
        ended=tuple(e for e in ends if e.rank not in failed),
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
