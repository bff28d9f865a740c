"""Figures, sizes and times, at the places where their form changes."""

import pytest

from seams.values import figures

DAY = 86400
TEXTS = {
    figures.number: [(0, "0"), (512.0, "512"), (-3, "-3"), (0.031416, "0.03142"),
     (2.5e9, "2500000000"), (1e15 - 1, "999999999999999"), (1e15, "1e+15"), (1e15 + 2, "1e+15")],
    figures.size: [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (999_999, "1000.0 kB"),
     (10**6, "1.0 MB"), (10**9 - 1, "1000.0 MB"), (10**9, "1.0 GB"), (11_800_000_000, "11.8 GB")],
    figures.duration: [(0.0004, "0.4 ms"), (0.0999, "99.9 ms"), (0.1, "0.10 s"), (2.346, "2.35 s"),
     (59.99, "59.99 s"), (60, "1 min 0 s"), (250.9, "4 min 10 s"), (3599, "59 min 59 s"),
     (3600, "1 h 0 min"), (7500, "2 h 5 min"), (7559, "2 h 5 min"), (7560, "2 h 6 min")],
    figures.clock: [(-0.5, "0:00"), (45.9, "0:45"), (60, "1:00"), (3599, "59:59"),
     (3600, "1:00:00"), (3723, "1:02:03"), (2 * DAY - 1, "47:59:59"), (2 * DAY, "2d 00h"),
     (2 * DAY + 3 * 3600, "2d 03h"),
     (3 * DAY - 1, "2d 23h")],
    figures.rate: [(0, "0/s"), (1, "1/s"), (1.944, "1.94/s"), (999.4, "999/s"), (1000, "1000/s"),
     (1234.5, "1234/s"), (0.99, "59/min"), (1 / 60, "1/min"), (0.999 / 60, "60/h"),
     (0.00028, "1/h"), (4.549 / 3600, "4.5/h")],
}  # fmt: skip


@pytest.mark.parametrize("write", TEXTS, ids=lambda write: write.__name__)
def test_where_a_form_changes(write):
    assert [(given, write(given)) for given, _ in TEXTS[write]] == TEXTS[write]


def test_a_range_is_one_figure_where_both_look_the_same():
    assert figures.between([1.00001, 1.00002]) == "1"
    assert figures.between([3, 1, 2]) == "1-3"
    assert figures.between([-3, -1]) == "-3..-1"


def test_sizes_have_one_unit():
    assert figures.sizes([5, 999]) == "5-999 B"
    assert figures.sizes([500, 1000]) == "0.5-1.0 kB"
