"""Equal lines of several ranks: nothing is lost, nothing is invented, each rank's order stays."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.output import Fold

LINES = st.sampled_from(
    [b"a\n", b"b\n", b"\n", b"loss 1\n", b"loss -2.5e3 at 7\n", b"v1.2.3 x-5\n"]
)
WRITES = st.lists(
    st.tuples(st.integers(0, 3), st.lists(LINES, min_size=1, max_size=6), st.floats(0, 0.1)),
    max_size=40,
)
NUMBERS = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e\d+)?(?: … [-+]?\d+(?:\.\d+)?(?:e\d+)?)?")


@given(WRITES, st.booleans(), st.booleans())
def test_what_each_rank_wrote_is_shown_once_and_in_its_order(writes, numbers, takes):
    fold, now = Fold(4, numbers=numbers), 0.0
    wrote, shown = [b""] * 4, [b""] * 4

    def show(at):
        for ranks, text in fold.take_due(at):
            for rank in ranks:
                shown[rank] += text

    for rank, lines, seconds in writes:
        now += seconds
        wrote[rank] += b"".join(lines)
        fold.add(rank, b"".join(lines), now)
        if takes:
            show(now)
            if fold.due is not None:
                assert fold.due > now
    show(None)
    if numbers:
        wrote, shown = (
            [NUMBERS.sub("#", text.decode()) for text in texts] for texts in (wrote, shown)
        )
    assert shown == wrote
    assert fold.due is None


def of(numbers=False, nproc=4, **writes):
    """Show what ranks r0, r1, ... have written, as `ranks: text`."""
    fold = Fold(nproc, numbers=numbers)
    for rank, text in writes.items():
        fold.add(int(rank[1:]), text.encode(), 0.0)
    return [(ranks, text.decode()) for ranks, text in fold.take_due(None)]


WARNING = "x.py:3: UserWarning: old\n  warnings.warn()\n"


@pytest.mark.parametrize(
    ("writes", "shown"),
    [
        ({f"r{r}": WARNING for r in range(4)}, [([0, 1, 2, 3], WARNING)]),
        (
            {f"r{r}": f"rank {r}\n{WARNING}" for r in range(3)},
            [*(([r], f"rank {r}\n") for r in range(3)), ([0, 1, 2], WARNING)],
        ),
        (
            {"r0": "a\nb\nc\n", "r1": "a\nc\n", "r2": "c\nd\n"},
            [([0, 1], "a\n"), ([0], "b\n"), ([0, 1, 2], "c\n"), ([2], "d\n")],
        ),
        ({"r0": "a\nb\n", "r1": "b\na\n"}, [([0], "a\n"), ([0, 1], "b\n"), ([1], "a\n")]),
        ({"r0": "a\na\n", "r1": "a\n"}, [([0, 1], "a\n"), ([0], "a\n")]),
        ({"r0": "a\n\n", "r1": "b\n\n"}, [([0], "a\n\n"), ([1], "b\n\n")]),
    ],
)
def test_together(writes, shown):
    assert of(**writes) == shown


def test_numbers():
    losses = {f"r{r}": f"step 7 loss {1.42 - r / 10:.2f}\n" for r in range(4)}
    assert of(numbers=True, **losses) == [([0, 1, 2, 3], "step 7 loss 1.12 … 1.42\n")]
    assert of(**losses) == [([r], text) for r, text in enumerate(losses.values())]


def test_how_long_lines_wait():
    fold = Fold(3)
    fold.add(0, b"a\n", 0.0)
    assert (fold.due, fold.take_due(0.03)) == (0.04, [])
    fold.add(1, b"a\n", 0.04)
    assert (fold.due, fold.take_due(0.2)) == (0.25, [])
    fold.add(1, b"b\n", 0.2)
    fold.add(2, b"a\n", 0.2)  # all have it, so nobody can come before it any more
    assert (fold.due, fold.take_due(0.2)) == (0.0, [([0, 1, 2], b"a\n")])
    assert fold.due == 0.2 + 0.04


def test_much_that_waits_is_shown():
    fold = Fold(2)
    for n in range(3000):
        fold.add(0, b"%d\n" % n, 0.0)
        fold.take_due(0.0)
    assert fold.due == 0.04
    fold.add(0, b"x" * (1 << 20) + b"\n", 0.0)
    assert fold.due == 0.0
    fold.take_due(0.0)
    assert fold.due is None
