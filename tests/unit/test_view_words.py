"""Figures, rates, and the line of status."""

import pytest

from seams.values import LONGEST_RANKS, figures, short_ranks
from seams.view import Pace, Seen, Usage, Whole, plain, see, status_line


@pytest.mark.parametrize(
    ("values", "text"),
    [([512], "512"), ([515, 512], "512-515"), ([0.1, 0.25], "0.1-0.25"), ([-2, 3], "-2..3"),
     ([1e20], "1e+20"), ([float("inf")], "inf")],
)  # fmt: skip
def test_ranges(values, text):
    assert figures.between(values) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.9, "0:59"), (3600, "1:00:00"), (86400 * 2.5, "2d 12h"), (-1, "0:00")],
)
def test_clock(seconds, text):
    assert figures.clock(seconds) == text


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


@pytest.mark.parametrize(
    ("rate", "text"),
    [(1.94, "1.94/s"), (12345.6, "12346/s"), (0.5, "30/min"), (0.001, "3.6/h"), (0, "0/s")],
)
def test_rates(rate, text):
    assert figures.rate(rate) == text


def test_sizes_share_a_unit():
    assert figures.sizes([900_000_000, 1_400_000_000]) == "0.9-1.4 GB"
    assert figures.sizes([0]) == "0 B"


def test_pace_is_that_of_the_last_beats():
    pace = Pace()
    for second in range(100):
        pace.take(0, float(second), 2 * second if second < 50 else 50 + second)
    assert pace.rate(0, 99.0) == 1.0
    assert pace.rate(0, 100.0) == 1.0
    assert pace.rate(0, 140.0) is None, "it has been silent for too long"
    assert pace.rate(1, 0.0) is None


def test_a_step_in_a_minute_has_a_pace():
    pace = Pace()
    pace.take(0, 0.0, 1)
    pace.take(0, 60.0, 2)
    assert pace.rate(0, 100.0) == 1 / 60


def test_who_begins_anew_has_a_new_pace():
    pace = Pace()
    for at, step in ((0.0, 10), (1.0, 20), (2.0, 0), (3.0, 1)):
        pace.take(0, at, step)
    assert pace.rate(0, 3.0) == 1.0


def test_many_looks_keep_few_samples():
    pace = Pace()
    for tick in range(10_000):
        pace.take(0, tick / 100, tick)
    assert len(pace._steps[0]) < 70
    assert pace.rate(0, 100.0) == pytest.approx(100)


def whole(*ranks, **more):
    given = {"name": "train.py", "state": "RUNNING", "attempt": 0, "restarts": 0, "seconds": 312}
    return Whole(**{**given, **more}, ranks=ranks)


def test_status_line():
    ranks = [
        Seen(r, "RUNNING", step=515 - r, total=1000, rate=1.94,
             usage=Usage(98.75, 1_537_500_000))
        for r in range(8)
    ]  # fmt: skip
    assert status_line(whole(*ranks), "12:31") == (
        "procession: 12:31 running for 5 min: 8 RUNNING, step 508-515 of 1000 "
        "(1.94/s, 4 min left), slowest rank 7; 12.3 GB, 790 % CPU"
    )


def test_status_line_of_a_group_that_tells_nothing():
    said = status_line(whole(Seen(0, "RUNNING"), restarts=3, attempt=1), "00:00")
    assert said == "procession: 00:00 running for 5 min, attempt 1: 1 RUNNING"


def test_status_line_names_what_is_odd():
    ranks = [Seen(r, "RUNNING", step=5, quiet=0.1) for r in range(4)]
    ranks[3] = ranks[3].__replace__(quiet=100.0)
    assert "silent: 3" in status_line(whole(*ranks), "12:31")


def test_texts_of_ranks_are_harmless():
    assert (
        plain("a\tb\x1b[31mred\x1b[0m\x1b]0;title\x07\x9bc\r\n\u202eend")
        == "a bred^[]0;title^G<9b>c^M^J<U+202E>end"
    )


def test_what_is_seen_of_a_look():
    rank = {"rank": 1, "pid": 7, "state": "RUNNING", "exit": None, "beats": 3, "beat_at": 90.0,
            "step": float("inf"), "total": 10, "fields": {}}  # fmt: skip
    look = {"name": "x", "first": 8, "nproc": 4, "state": "STOPPING", "attempt": 0, "restarts": 0,
            "began": 50.0, "kill_at": 130.0, "cause": None, "ranks": [rank]}  # fmt: skip
    found = see(look, 100.0, Pace(), {1: Usage(memory=5)})
    assert (found.seconds, found.to_kill, found.cause) == (50.0, 30.0, "")
    (seen,) = found.ranks
    assert (seen.rank, seen.step, seen.total, seen.quiet) == (9, None, 10, 10.0)
    assert seen.usage.memory == 5
    assert (seen.left, seen.share) == (None, None)
