"""The benchmarks: their arithmetic, and one of them from end to end. No time is asserted."""

import json
import sys
from pathlib import Path

import pytest

from support import run_python, write

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"

sys.path.insert(0, str(BENCHMARKS))
try:
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
    found = figure([3.0, 1.0, 2.0], peer=[10.0, 30.0], limit=[0.0])
    assert [found.median(side) for side in ("ours", "peer", "limit", "no")] == [
        2.0,
        20.0,
        0.0,
        None,
    ]
    assert found.ratio("peer") == 0.1


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


def test_ways_take_turns_and_the_first_changes():
    taken = []
    samples = measure.alternate(
        {name: lambda name=name: taken.append(name) or len(taken) for name in "abc"}, 3
    )
    assert "".join(taken) == "abcbcacab"
    assert samples == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}


# -- the table


def result():
    goals = [figures.Goal(1 / 15, "peer"), figures.Goal(1.3, "limit")]
    return {
        "benchmark": "start",
        "figures": [figure([2.0], peer=[40.0], limit=[1.0], goals=goals).as_dict()],
        "machine": {"cores": 2, "kernel": "6.1", "processor": "P", "memory_gb": 24},
        "versions": {"python": "3.11", "torch": "2.13.0", "procession": "0.1.0"},
    }


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_table_says_what_was_met_and_what_was_missed():
    head, _, row = table.table([result()]).splitlines()
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


def test_the_page_gets_a_table_between_its_markers():
    page = (ROOT / "docs" / "background" / "comparison.md").read_text(encoding="utf-8")
    once = table.between(page, "results", table.tables([result()]))
    assert "| `start`" in once
    assert table.between(once, "results", table.tables([result()])) == once
    assert once.startswith(page.partition("<!-- results:begin -->")[0])


# -- benchmarks as programs


def test_a_benchmark_that_takes_too_long_fails_and_leaves_nothing(tmp_path):
    slow = write(
        tmp_path / "slow.py",
        f"""
        import sys

        sys.path.insert(0, {str(BENCHMARKS)!r})
        import measure as measuring
        import script

        def measure(plan):
            (plan.directory() / "file").touch()
            measuring.run(["sh", "-c", "setsid sleep 1000 & exec sleep 1000"])

        if __name__ == "__main__":
            script.MOST_SECONDS = 0.5
            script.main(["slow"])
        """,
    )
    done = run_python(slow)
    assert done.returncode == 1
    assert done.stderr == "slow: took longer than 0.5 s\n"


@pytest.mark.torch
def test_a_benchmark_from_end_to_end(tmp_path):
    out = tmp_path / "results.json"
    name = "start_plain_script"
    done = run_python(BENCHMARKS / "run.py", name, "--repeat", "1", "--out", out, timeout=55)
    assert done.returncode == 0, done.stderr
    assert f"| `{name}` | 16 ranks, to the end |" in done.stdout
    told = json.loads(out.read_text())["benchmarks"][name]
    assert told.keys() == {"benchmark", "repeat", "figures", "load_before", "machine", "versions"}
    assert told["repeat"] == 1
    found = figures.Figure.from_dict(told["figures"][0])
    assert all(found.median(side) > 0 for side in ("ours", "peer", "limit"))
    assert [goal.text(found) for goal in found.goals] == ["≤ 1/10 torchrun", "≤ 1.2 × limit"]
