"""Figures, rates, and the line of status."""

import os
import time

import pytest

from seams.values import LONGEST_RANKS, short_ranks
from seams.view import Pace, RankView, Sight, Usage, Whole, status_line


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([3], "3"), (range(64), "[0-63]"), ([0, 1, 40], "[0-1,40]"),
     (range(0, 64, 2), "[0,2,4,6,8...] 32"), ([0, 2, 4, 6, 8, 10, 12], "[0,2,4,6,8,10,12]"),
     ([0, 2, 4, 6, 8, 10, 20, 30], "[0,2,4,6,8...] 8"),
     ([0, 2, 4, 6, 8, 10, 100], "[0,2,4,6,8,10,100]"),
     ([0, 2, 4, 6, 8, 10, 1000], "[0,2,4,6,8...] 7"),
     ([100_000, 100_002, 100_004], "[100000...] 3")],
)  # fmt: skip
def test_ranks(ranks, text):
    assert short_ranks(list(ranks)) == text
    assert len(text) <= LONGEST_RANKS


def paced(*beats, now=None):
    """Give the pace after these beats, each a time and a step."""
    pace = Pace()
    rates = [pace.note_beat(0, at, step, at) for at, step in beats]
    return rates[-1] if now is None else pace.note_beat(0, *beats[-1], now)


def test_pace_is_that_of_the_last_beats():
    beats = [(float(at), 2 * at if at < 50 else 50 + at) for at in range(100)]
    assert paced(*beats) == paced(*beats, now=100.0) == 1.0
    assert paced(*beats, now=140.0) is None, "it has been silent for too long"
    assert paced(*((tick / 100, tick) for tick in range(10_000))) == pytest.approx(100)
    assert paced((0.0, 10), (1.0, 20), (2.0, 0), (3.0, 1)) == 1.0, "it began again"
    assert paced((0.0, 1), (60.0, 2), now=100.0) == 1 / 60
    assert paced((0.0, 1)) is paced((None, None)) is None


def whole(*ranks, **more):
    given = {"name": "train.py", "state": "RUNNING", "attempt": 0, "restarts": 0, "seconds": 312}
    return Whole(**{**given, **more}, ranks=ranks)


def test_status_line():
    ranks = [
        RankView(r, "RUNNING", step=515 - r, total=1000, rate=1.94,
             usage=Usage(98.75, 1_537_500_000))
        for r in range(8)
    ]  # fmt: skip
    assert status_line(whole(*ranks))[18:] == (
        "train.py: 8 RUNNING, 508/1000, 1.94/s, 4:13 left, 5:12, 12.3 GB, 790 % CPU"
    )


def test_status_line_names_what_is_odd():
    ranks = [RankView(r, "RUNNING", step=5, quiet=0.1) for r in range(4)]
    ranks[3] = ranks[3].__replace__(quiet=100.0)
    said = status_line(whole(*ranks, state="STOPPING", cause="rank 0 failed"))
    assert said.endswith("; silent: 3; rank 0 failed: 4 ranks left, which may end by themselves")


def test_what_is_seen_of_a_look(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 100.0)
    rank = {"rank": 1, "pid": 7, "state": "RUNNING", "exit": None, "beats": 3, "beat_at": 90.0,
            "step": float("inf"), "total": 10, "fields": {}}  # fmt: skip
    look = {"name": "x", "first": 8, "nproc": 4, "state": "STOPPING", "attempt": 0, "restarts": 0,
            "began": 50.0, "kill_at": 130.0, "cause": None, "ranks": [rank]}  # fmt: skip
    found = Sight(None).see(look)
    assert (found.seconds, found.to_kill, found.cause) == (50.0, 30.0, "")
    (seen,) = found.ranks
    assert (seen.rank, seen.step, seen.total, seen.quiet) == (9, None, 10, 10.0)
    assert seen.left is None
    for host, own in (("elsewhere", False), (os.uname().nodename, True)):
        here = {**look, "ranks": [{**rank, "pid": os.getpid(), "host": host}]}
        (seen,) = Sight(lambda here=here: here).see().ranks
        assert bool(seen.usage.memory) == own
