"""Which run a word of the command line means."""

import pytest

from procession.control.runs import NotFound, Run, choose

RUNS = [
    Run("train.py_aa11", "train.py", "SUCCEEDED", began=1.0),
    Run("train.py_ab22", "train.py", "RUNNING", launcher=501, began=2.0, socket="train.py_ab22"),
    Run("eval.py_cc33", "eval.py", "RUNNING", launcher=502, began=3.0, socket="eval.py_cc33"),
    Run("eval.py_cd44", "eval.py", "UNSEEN", launcher=503, began=4.0),
    Run("done.py_ee55", "done.py", "FAILED", began=0.5),
]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("train.py_aa11", 0),
        ("train.py", 1),  # the other one has ended
        ("train.py_ab", 1),
        ("ab22", 1),
        ("501", 1),
        ("503", 3),
        ("eval.py_cc", 2),
        ("done.py", 4),
        ("do", 4),
        ("last", 3),
    ],
)
def test_found(word, meant):
    assert choose(word, RUNS) is RUNS[meant]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("eval.py", "may be eval.py_cd44 or eval.py_cc33"),
        ("eval.py_c", "may be"),
        ("c", "may be"),
        ("nothing", "no run 'nothing'; there is eval.py_cd44, eval.py_cc33, train.py_ab22"),
        ("504", "no run '504'"),
    ],
)
def test_not_found(word, said):
    with pytest.raises(NotFound, match=said) as caught:
        choose(word, RUNS)
    assert "\n" not in str(caught.value)


def test_of_none():
    with pytest.raises(NotFound, match=r"there is no run$"):
        choose("last", [])
    with pytest.raises(NotFound, match="there is none at all"):
        choose("x", [])


def test_many_are_not_all_listed():
    runs = [Run(f"x_{i:02}", f"x{i}", "RUNNING", began=i, socket="s") for i in range(30)]
    with pytest.raises(NotFound, match=r"22 more$"):
        choose("nothing", runs)
