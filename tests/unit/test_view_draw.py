"""The lines of the live view, for terminals of all widths."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from seams.view import Drawing, RankView, Usage, Whole, ending
from unit.viewgroups import groups

PLAIN = Drawing(colour=False)


def whole(*ranks, **more):
    given = {"name": "train.py", "state": "RUNNING", "attempt": 0, "restarts": 0, "seconds": 75}
    return Whole(**{**given, **more}, ranks=ranks)


def rank(number, **more):
    usual = {"step": 512, "total": 1000, "rate": 2.0, "usage": Usage(99.0, 1_200_000_000)}
    return RankView(number, "RUNNING", **{**usual, "last_line": f"epoch {number}", **more})


def drawn(*ranks, width=101, most=12, drawing=PLAIN, **more):
    return drawing.lines(whole(*ranks, **more), width, most)


@given(groups(), st.integers(2, 250))
def test_no_line_is_wider_than_the_terminal(seen, width):
    lines = drawn(*seen, width=width, cause="rank 3 failed")
    assert max(map(cell_len, lines)) < width
    assert len(lines) <= 12


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, ["RANK", "STATE", "STEP", "RATE", "LEFT", "loss", "CPU", "MEMORY",
               "LAST LINE"]),
        (79, ["RANK", "STATE", "STEP", "RATE", "LEFT", "loss", "CPU", "MEMORY", "LAST LINE"]),
        (62, ["RANK", "STATE", "STEP", "RATE", "LEFT", "MEMORY", "LAST LINE"]),
        (39, ["RANK", "STATE", "STEP", "RATE", "LEFT"]),
    ],
)  # fmt: skip
def test_what_matters_most_stays_on_narrow_terminals(width, titles):
    ranks = [rank(r, fields={"loss": 2.25}, last_line="long " * r * 9) for r in range(4)]
    title, *lines = drawn(*ranks, width=width)
    assert re.split(r"\s{2,}", title.strip()) == titles
    assert len(lines) == 5
    for line in lines[:4]:
        assert re.match(r"\d +RUNNING +512/1000 .*2/s  4:04( |$)", line), "only the last one is cut"


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ({"failed": True, "state": "EXITED", "exit": "exit code 3"}, "failed: exit code 3"),
        ({"quiet": 75.0}, "silent 1:15"),
        ({"step": 100}, "slow"),
        ({"usage": Usage(memory=3_000_000_000)}, "much memory"),
        ({"state": "EXITED", "ended": "FINISHED"}, "finished"),
        ({"state": "STOPPING"}, "STOPPING"),
    ],
)
def test_states(seen, text):
    ranks = [rank(r, quiet=0.1) for r in range(4)]
    lines = drawn(*ranks[:3], ranks[3].__replace__(**seen))
    assert re.match(rf"3 +{text} ", lines[4])


def test_summary():
    line = drawn(rank(0), rank(1, step=250))[-1]
    assert line == "train.py: 2 RUNNING, 250/1000, 2/s, 6:15 left, 1:15, 2.4 GB, 198 % CPU"


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (whole(rank(0)), ""),
        (whole(rank(0), rank(1), state="STOPPING", to_kill=12.3),
         "stopping, 2 ranks left, 12 s to SIGKILL"),
        (whole(rank(0), state="STOPPING", cause="rank 3 exited with code 1", to_kill=1.0),
         "rank 3 exited with code 1: stopping, 1 rank left, 1 s to SIGKILL"),
        (whole(RankView(0, "KILLING"), state="STOPPING", to_kill=1.0), "killing, 1 rank left"),
        (whole(rank(0), state="STOPPING", cause="it"),
         "it: 1 rank left, which may end by themselves"),
    ],
)  # fmt: skip
def test_ending(group, text):
    assert ending(group) == text
    for most in (12, 1):  # a terminal of few lines has one for the view
        lines = PLAIN.lines(group, 101, most)
        assert lines[-1].startswith(text)
    assert len(lines) == 1


def test_texts_of_ranks_cannot_change_the_screen():
    evil = rank(0, last_line="\x1b[2Jgone\x07 [red]", fields={"\x1b]0;x": "\x9b1m"})
    text = "".join(drawn(evil, width=200, name="\x1b[5mx"))
    assert not re.search("[\x00-\x1f\x7f-\x9f]", text)
    assert "[red]" in text


def test_colours_only_where_there_are_any(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(drawn(rank(0)))
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[" in "".join(drawn(rank(0), drawing=Drawing()))
