"""The benchmarks: their arithmetic, and one of them from end to end. No time is asserted."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from support import run_python, write

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"

sys.path.insert(0, str(BENCHMARKS))
try:
    import compare
    import figures
    import measure
    import table
finally:
    sys.path.remove(str(BENCHMARKS))


def figure(ours, peer=(), limit=(), goals=(), unit="s"):
    samples = {"ours": ours, "peer": peer, "limit": limit}
    return figures.Figure("16 ranks", unit, "torchrun", samples, goals)


# -- arithmetic


def test_medians_and_ratios():
    found = figure([3.0, 1.0, 2.0], peer=[10.0, 30.0], limit=[2.0])
    assert [found.median(side) for side in figures.SIDES] == [2.0, 20.0, 2.0]
    assert found.ratio("peer") == 0.1
    assert found.ratio("limit") == 1.0


def test_what_was_not_measured_has_no_ratio():
    found = figure([1.0], limit=[0.0])
    assert found.median("peer") is None
    assert found.ratio("peer") is None
    assert found.ratio("limit") is None  # nothing is so many times nothing


@pytest.mark.parametrize(
    ("goal", "met", "text"),
    [
        (figures.Goal(1 / 15, "peer"), True, "≤ 1/15 torchrun"),
        (figures.Goal(1 / 16, "peer"), False, "≤ 1/16 torchrun"),
        (figures.Goal(1.3, "limit"), True, "≤ 1.3 × limit"),
        (figures.Goal(1, "limit"), False, "≤ 1 × limit"),
        (figures.Goal(2), True, "≤ 2 s"),
        (figures.Goal(1.9), False, "≤ 1.9 s"),
    ],
)
def test_goals(goal, met, text):
    found = figure([2.0], peer=[30.0], limit=[1.6])
    assert goal.met(found) is met
    assert goal.text(found) == text


def test_a_goal_without_its_side_is_neither_met_nor_missed():
    assert figures.Goal(1 / 2, "peer").met(figure([1.0])) is None


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, ""), (0.0, "0"), (1 / 15.24, "1/15.2"), (0.5, "1/2"), (0.9, "0.90 ×"), (3, "3.00 ×")],
)
def test_ratios_in_words(ratio, text):
    assert figures.ratio_text(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.12345, "0.123 s"), (12.34, "12.3 s"), (1234.5, "1,234 s")]
)
def test_values_in_words(value, text):
    assert figures.value_text(value, "s") == text


def test_a_figure_survives_json():
    before = figure([1.0, 2.0], peer=[3.0], goals=[figures.Goal(0.5, "peer")])
    after = figures.Figure.from_dict(json.loads(json.dumps(before.as_dict())))
    assert after.as_dict() == before.as_dict()
    assert after.as_dict()["medians"] == {"ours": 1.5, "peer": 3.0, "limit": None}


def test_ways_take_turns_and_the_first_changes():
    taken = []
    samples = measure.alternate(
        {name: lambda name=name: taken.append(name) or len(taken) for name in "abc"}, 3
    )
    assert "".join(taken) == "abcbcacab"
    assert samples == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}


# -- the table


def results(picture=None):
    goals = [figures.Goal(1 / 15, "peer"), figures.Goal(1.3, "limit")]
    told = {
        "benchmark": "start",
        "figures": [figure([2.0], peer=[40.0], limit=[1.0], goals=goals).as_dict()],
    }
    if picture is not None:
        told["picture"] = picture
    return {
        "machine": {"cores": 2, "kernel": "6.1", "processor": "P", "memory_gb": 24},
        "versions": {"python": "3.11", "torch": "2.13.0", "procession": "0.1.0"},
        "benchmarks": {"start": told},
    }


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_table_says_what_was_met_and_what_was_missed():
    head, _, row = table.table(results()["benchmarks"].values()).splitlines()
    assert len(head) == len(row)
    assert dict(zip(cells(head), cells(row), strict=True)) == {
        "benchmark": "`start`",
        "what": "16 ranks",
        "ours": "2 s",
        "peer": "40 s (torchrun)",
        "limit": "1 s",
        "to peer": "1/20",
        "to limit": "2.00 ×",
        "goal": "≤ 1/15 torchrun; ≤ 1.3 × limit",
        "met": "yes; **no**",
    }


def test_the_page_gets_table_and_picture_between_its_markers():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    once = table.written(page, results("▒▒█ 1 s"))
    assert "| `start`" in once
    assert "```text\n▒▒█ 1 s\n```" in once
    assert table.written(once, results("▒▒█ 1 s")) == once
    outside = page.partition("<!-- results:begin -->")[0]
    assert once.startswith(outside)


def test_a_page_without_markers_is_refused(tmp_path):
    given = write(tmp_path / "results.json", json.dumps(results()))
    page = write(tmp_path / "page.md", "nothing here\n")
    done = run_python(BENCHMARKS / "table.py", "--results", given, "--write", page)
    assert done.returncode == 1
    assert "it must hold <!-- results:begin -->" in done.stderr
    assert page.read_text() == "nothing here\n"


def test_each_machine_has_a_table_of_its_own():
    both = results()
    told = both["benchmarks"]["start"]
    other = {**both["machine"], "processor": "Q"}
    both["benchmarks"] = {"start": told, "stop": {**told, "benchmark": "stop", "machine": other}}
    first, second = table.tables(both).split("Linux")[1:]
    assert "(P)" in first
    assert "`start`" in first
    assert "`stop`" not in first
    assert "(Q)" in second
    assert "`stop`" in second


# -- comparing


def told_of(ours, *, machine="P", **sides):
    goals = [figures.Goal(1.3, "limit")]
    one = {"benchmark": "start", "figures": [figure(ours, goals=goals, **sides).as_dict()]}
    return {"machine": {"processor": machine}, "benchmarks": {"start": one}}


OLD = [1.0, 1.1, 0.9, 1.05, 0.95]
SLOW = [1.5, 1.6, 1.4, 1.55, 1.45]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (OLD, SLOW, "worse"),
        (SLOW, OLD, "better"),
        (OLD, OLD, ""),
        (OLD, [1.2, 0.9, 1.3, 0.95, 1.1], ""),  # as far apart, but mixed
        (OLD, [1.03 * v for v in OLD], ""),
        ([1.0] * 5, [1.04] * 5, ""),  # clear, but too little to matter
        ([0.0] * 5, [0.0] * 5, ""),
        ([0.0] * 5, [2.0] * 5, "worse"),
        (OLD[:3], SLOW[:3], "too few samples (3 and 3)"),
    ],
)
def test_what_is_worse_than_noise(old, new, verdict):
    (row,) = compare.compared(told_of(old), told_of(new))
    assert row.verdict == verdict


def test_a_slower_machine_is_seen_by_the_limit_beside_it():
    drift = [1.0, 3.0, 2.0, 1.5, 4.0]
    twice = [2 * v * d for v, d in zip(OLD, drift, strict=True)]
    (row,) = compare.compared(told_of(OLD, limit=[1.0] * 5), told_of(twice, limit=drift))
    assert row.verdict == "worse"
    assert round(row.new, 3) == 2.0
    same = [v * d for v, d in zip(OLD, drift, strict=True)]
    (row,) = compare.compared(told_of(OLD, limit=[1.0] * 5), told_of(same, limit=drift))
    assert row.verdict == ""
    assert row.over == "limit"


def test_what_stands_alone_is_not_compared_across_machines():
    (row,) = compare.compared(told_of(OLD), told_of(SLOW, machine="Q"))
    assert row.verdict == "cannot be compared: another machine"


def test_the_chance_of_orders():
    assert compare.chance(5, 5, 25) == 1.0
    assert compare.chance(5, 5, 0) == 1 / 252
    assert compare.chance(1, 1, 0) == 0.5


def test_comparing_names_what_got_worse_and_goals_that_were_lost(tmp_path):
    old = write(tmp_path / "old.json", json.dumps(told_of(OLD, limit=[1.0] * 5)))
    new = write(tmp_path / "new.json", json.dumps(told_of(SLOW, limit=[1.0] * 5)))
    done = run_python(BENCHMARKS / "compare.py", old, new)
    assert done.returncode == 1
    assert "start: 16 ranks (torchrun)" in done.stdout
    assert "+50 %  worse  goal missed now: ≤ 1.3 × limit" in done.stdout
    assert "1 figures compared: 1 worse, 0 better" in done.stdout
    done = run_python(BENCHMARKS / "compare.py", old, old)
    assert done.returncode == 0
    assert done.stdout == "1 figures compared: 0 worse, 0 better\n"
    done = run_python(BENCHMARKS / "compare.py", old, tmp_path / "none.json")
    assert done.returncode == 2


# -- benchmarks as programs


def test_a_benchmark_that_takes_too_long_fails_and_leaves_nothing(tmp_path):
    slow = write(
        tmp_path / "slow.py",
        f"""
        import subprocess
        import sys

        sys.path.insert(0, {str(BENCHMARKS)!r})
        import measure
        from script import main

        def take(plan):
            (plan.directory() / "file").touch()
            measure.run(["sh", "-c", "setsid sleep 1000 & exec sleep 1000"])

        main("wait", take, most_seconds=0.5)
        """,
    )
    done = run_python(slow, "--json")
    assert done.returncode == 1
    assert done.stderr == "slow: took longer than 0.5 s\n"


def test_an_unknown_benchmark_is_refused():
    done = run_python(BENCHMARKS / "run.py", "speed")
    assert done.returncode == 2
    assert "no such benchmark: speed" in done.stderr


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_benchmark_from_end_to_end(tmp_path):
    out = tmp_path / "results.json"
    name = "start_plain_script"
    done = run_python(BENCHMARKS / "run.py", name, "--repeat", "1", "--out", out, timeout=55)
    assert done.returncode == 0, done.stderr
    assert f"| `{name}` | 16 ranks, to the end |" in done.stdout
    written = json.loads(out.read_text())
    assert set(written) == {"machine", "versions", "benchmarks"}
    told = written["benchmarks"][name]
    assert told["repeat"] == 1
    (found,) = told["figures"]
    assert {side: len(samples) for side, samples in found["samples"].items()} == {
        "ours": 1,
        "peer": 1,
        "limit": 1,
    }
    assert all(value > 0 for value in found["medians"].values())
    assert [goal["text"] for goal in found["goals"]] == ["≤ 1/10 torchrun", "≤ 1.2 × limit"]
