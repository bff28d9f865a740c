"""Which run a word of the command line means."""

import pytest

from seams.control import NotFound, Run, choose

HERE = "/here"
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
        ("501", 1),
        ("503", 3),
        ("eval.py_cc", 2),
        ("done.py", 4),
        ("do", 4),
    ],
)
def test_found(word, meant):
    assert choose(word, RUNS, HERE) is RUNS[meant]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("eval.py", "fits several runs: eval.py_cd44 or eval.py_cc33"),
        ("eval.py_c", "fits several runs"),
        ("e", "fits several runs"),
        ("nothing", "no run 'nothing'; there is eval.py_cd44, eval.py_cc33, train.py_ab22"),
        ("504", "no run '504'"),
    ],
)
def test_not_found(word, said):
    with pytest.raises(NotFound, match=said) as caught:
        choose(word, RUNS, HERE)
    assert "\n" not in str(caught.value)


def test_last_is_the_newest_of_this_directory():
    runs = [
        Run("a", "a", "RUNNING", began=1.0, socket="a", cwd="/here"),
        Run("b", "b", "RUNNING", began=2.0, socket="b", cwd="/here"),
        Run("c", "c", "RUNNING", began=3.0, socket="c", cwd="/there"),
    ]
    assert choose("last", runs, HERE).id == "b"
    silent = Run("s", "s", "SILENT", began=4.0, socket="s")  # nobody knows where it was started
    assert choose("last", [*runs, silent], HERE).id == "s"
    assert choose("last", [*runs, silent.__replace__(cwd="/there")], HERE).id == "b"
    with pytest.raises(NotFound, match="no run was started in this directory; there is c"):
        choose("last", runs[2:], HERE)
    with pytest.raises(NotFound):
        choose("last", [Run("d", "d", "RUNNING")], "")


def test_by_slurm_s_number_of_its_job():
    runs = [
        Run("a", "a", "RUNNING", socket="a", launcher=7, slurm_job="1234"),
        Run("b", "b", "RUNNING", socket="b", launcher=8),
    ]
    assert choose("1234", runs, HERE).id == "a"
    with pytest.raises(NotFound, match="fits several runs: a or c"):
        choose("1234", [*runs, Run("c", "c", "RUNNING", socket="c", launcher=1234)], HERE)


def test_many_are_not_all_listed():
    runs = [Run(f"x_{i:02}", f"x{i}", "RUNNING", began=i, socket="s") for i in range(30)]
    with pytest.raises(NotFound, match=r"22 more$"):
        choose("nothing", runs, HERE)
