"""Which ranks share a row of the live view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.view import RankView, Usage, fold, oddities
from unit.viewgroups import FAILED, RUNNING, groups


def group(count, **by_rank):
    """Give running ranks at step 500; by_rank: what else some of them are, `_3={...}`."""
    usual = {**RUNNING, "step": 500, "total": 1000, "quiet": 0.1, "usage": Usage(memory=1 << 30)}
    return [RankView(rank=r, **{**usual, **by_rank.get(f"_{r}", {})}) for r in range(count)]


def told(rows):
    return [([r.rank for r in row.ranks], row.odd) for row in rows]


@given(groups(), st.integers(-3, 40))
def test_every_rank_once_the_odd_ones_first_and_apart(seen, room):
    odd = oddities(seen)
    rows = fold(seen, room)
    assert len(rows) <= max(1, room)
    assert sorted(r.rank for row in rows for r in row.ranks) == list(range(len(seen)))
    if room > 1:
        for row in rows:
            assert len({r.rank in odd for r in row.ranks}) == 1, row
            assert bool(row.odd) == (row.ranks[0].rank in odd)
    if len(seen) > room:
        kinds = [bool(row.odd) for row in rows]
        assert kinds == sorted(kinds, reverse=True), "the odd ones stand first"


@pytest.mark.parametrize(
    ("what", "odd"),
    [
        ({"step": 400}, "slow"),
        ({"quiet": 60.0}, "silent"),
        ({"usage": Usage(memory=3 << 30)}, "much memory"),
        (FAILED, "failed"),
        ({"state": "LOST"}, "lost"),
    ],
)
def test_an_odd_rank_has_a_row_of_its_own(what, odd):
    others = [*range(7), *range(8, 64)]
    assert told(fold(group(64, _7=what), 10)) == [([7], odd), (others, "")]


@pytest.mark.parametrize(
    "what",
    [
        {"step": 498},  # as far as the others
        {"quiet": 9.0},  # it may be at work
        {"usage": Usage(memory=(1 << 30) + (200 << 20))},
        {"quiet": None, "step": None},  # it does not beat
    ],
)
def test_little_is_not_odd(what):
    assert oddities(group(64, _7=what)) == {}


def test_the_worst_are_alone_and_the_rest_of_the_odd_ones_together():
    slow = {f"_{r}": {"step": 100 + r} for r in range(20)}
    rows = fold(group(64, **slow, _30=FAILED, _31={"state": "STARTING"}), 7)
    assert [(len(row.ranks), row.odd) for row in rows] == [
        (1, "failed"),
        (1, "slow"),
        (1, "slow"),
        (1, "slow"),
        (17, "slow"),
        (42, ""),
        (1, ""),
    ]
