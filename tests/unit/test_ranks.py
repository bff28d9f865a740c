import pytest
from hypothesis import given
from hypothesis import strategies as st

from seams.values import by_rank, fold_ranks, parse_ranks


@pytest.mark.parametrize(
    ("mapping", "line"),
    [
        ({0: 1}, "args: nothing given for ranks 1-2; a mapping by rank must name every rank "
                 "from 0 to 2"),
        ({0: 1, 1: 1}, "args: nothing given for rank 2; a mapping by rank must name every rank "
                       "from 0 to 2"),
        ({0: 1, 1: 1, 2: 1, 7: 1}, "args: given for rank 7, but the group's ranks are 0 to 2"),
        ({0: 1, 1: 1, 2: 1, 3: 1}, "args: given for rank 3, but the group's ranks are 0 to 2"),
        ({-1: 1, 8: 1}, "args: given for ranks -1,8, but the group's ranks are 0 to 2"),
    ],
)  # fmt: skip
def test_a_mapping_must_fit_the_group(mapping, line):
    with pytest.raises(ValueError, match="args") as raised:
        by_rank(mapping, 3, "args")
    assert str(raised.value) == line


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0", {0}),
        ("0,2,5-7", {0, 2, 5, 6, 7}),
        (" 1 , 3-4 ", {1, 3, 4}),
        ("10-12,11", {10, 11, 12}),
        ("4-4", {4}),
        ("999999", {999_999}),
    ],
)
def test_parse(text, ranks):
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "a", "-1", "1-", "1-2-3", "1.5", "0x1", "1 2", "1000000"]
)
def test_what_is_no_list_of_ranks(text):
    with pytest.raises(ValueError, match="not a list of ranks") as raised:
        parse_ranks(text)
    assert str(raised.value) == f"not a list of ranks: {text!r}; write, for example, 0,2,5-7"


@given(st.sets(st.integers(0, 5000), min_size=1))
def test_fold_and_parse_are_a_round_trip(ranks):
    assert parse_ranks(fold_ranks(ranks)) == ranks
    assert fold_ranks(parse_ranks(fold_ranks(ranks))) == fold_ranks(ranks)
