"""The lines of the live view, for terminals of all widths."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from seams.view import Drawing, Row, Seen, Usage, Whole, fold
from unit.viewgroups import groups

PLAIN = Drawing(colour=False)


def whole(*ranks, **more):
    given = {"name": "train.py", "state": "RUNNING", "attempt": 0, "restarts": 0, "seconds": 75}
    return Whole(**{**given, **more}, ranks=ranks)


def rank(number, **more):
    usual = {"step": 512, "total": 1000, "rate": 2.0, "usage": Usage(99.0, 1_200_000_000)}
    return Seen(number, "RUNNING", **{**usual, "last_line": f"epoch {number}", **more})


@given(groups(), st.integers(1, 250), st.booleans())
def test_no_line_is_wider_than_the_terminal(seen, width, ascii_only):
    drawing = Drawing(colour=False, unicode=not ascii_only)
    group = whole(*seen, cause="rank 3 failed")
    lines = drawing.lines(group, fold(seen, 10), width)
    lines += [drawing.summary(group, width), drawing.ending(group, width)]
    assert max(map(cell_len, lines)) <= width
    if ascii_only:
        assert all(line.isascii() for line in lines)


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, ["RANK", "STATE", "STEP", "PROGRESS", "RATE", "LEFT", "loss", "CPU", "MEMORY",
               "LAST LINE"]),
        (79, ["RANK", "STATE", "STEP", "RATE", "LEFT", "loss", "CPU", "MEMORY", "LAST LINE"]),
        (62, ["RANK", "STATE", "STEP", "RATE", "LEFT", "MEMORY", "LAST LINE"]),
        (39, ["RANK", "STATE", "STEP", "RATE", "LEFT"]),
    ],
)  # fmt: skip
def test_what_matters_most_stays_on_narrow_terminals(width, titles):
    ranks = [rank(r, fields={"loss": 2.25}) for r in range(4)]
    title, *lines = PLAIN.lines(whole(*ranks), fold(ranks, 10), width)
    assert [t for t in titles if t in title] == titles == re.split(r"\s{2,}", title.strip())
    assert len(lines) == 4


def test_a_row_of_many_shows_ranges():
    ranks = [rank(r, step=500 + r, fields={"loss": 2 + r / 100}) for r in range(16)]
    _, line = PLAIN.lines(whole(*ranks), [Row(tuple(ranks))], 150)
    for text in ("[0-15]", "500-515/1000", "2/s", "2-2.15", "1.2 GB", "99 %"):
        assert text in line
    assert "epoch" not in line, "they did not all say the same"


@pytest.mark.parametrize(
    ("seen", "odd", "text"),
    [
        ({"failed": True, "state": "EXITED", "exit": "exit code 3"}, "failed", "exit code 3"),
        ({"quiet": 75.0}, "silent", "silent 1:15"),
        ({}, "slow", "slow"),
        ({}, "memory", "much memory"),
        ({"state": "EXITED", "ended": "FINISHED"}, "", "finished"),
        ({"state": "STOPPING"}, "", "STOPPING"),
    ],
)
def test_states(seen, odd, text):
    one = rank(3).__replace__(**seen)
    assert text in PLAIN.lines(whole(one), [Row((one,), odd)], 100)[1]


def test_summary():
    line = PLAIN.summary(whole(rank(0), rank(1, step=250)), 100)
    assert line.startswith("train.py: 2 RUNNING ")
    assert line.endswith(" 250/1000, 2/s, 6:15 left, 1:15, 2.4 GB, 198 % CPU")
    bar = re.search("━+─+", line)[0]
    assert bar.count("━") == round(len(bar) / 4), "that of the slowest rank"


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (whole(rank(0)), ""),
        (whole(rank(0), rank(1), state="STOPPING", to_kill=12.3),
         "stopping, 2 ranks left, 12 s to SIGKILL"),
        (whole(rank(0), state="STOPPING", cause="rank 3 exited with code 1", to_kill=1.0),
         "rank 3 exited with code 1: stopping, 1 rank left, 1 s to SIGKILL"),
        (whole(Seen(0, "KILLING"), state="STOPPING", to_kill=1.0), "killing, 1 rank left"),
        (whole(rank(0), state="STOPPING", cause="it"), "it: 1 rank left, which may end by themsel"),
    ],
)  # fmt: skip
def test_ending(group, text):
    assert PLAIN.ending(group, 100).strip()[: len(text) or None] == text


def test_texts_of_ranks_cannot_change_the_screen():
    evil = rank(0, last_line="\x1b[2Jgone\x07", fields={"\x1b]0;x": "\x9b1m"})
    lines = PLAIN.lines(whole(evil, name="\x1b[5mx"), [Row((evil,))], 200)
    text = "".join([*lines, PLAIN.summary(whole(evil, name="\x1bcx"), 200)])
    assert not re.search("[\x00-\x1f\x7f-\x9f]", text)


def test_colours_only_where_there_are_any():
    ranks = [rank(0)]
    coloured = Drawing(colour=True).lines(whole(*ranks), fold(ranks, 5), 100)
    assert "\x1b[" in coloured[0]
    assert "\x1b" not in "".join(PLAIN.lines(whole(*ranks), fold(ranks, 5), 100))
