"""Say which figures got worse, or better, by more than the noise.

python benchmarks/compare.py OLD NEW          # two files as `run.py` writes them
python benchmarks/compare.py OLD NEW --all    # also the figures that stayed

The exit code is 1 if a figure got worse, or a goal that was met is not met any more.

A machine is not as fast today as it was yesterday, and another one is faster still. So what is
compared is ours over the limit (without one: over the peer) of the same round, which was measured a
moment before or after. Where there is neither, it is ours alone, and then both files must be of one
machine.

A change counts if it is more than chance, and enough to matter: if samples of equal launchers fell
apart like this in fewer than one of a hundred cases (the test of Mann and Whitney, one-sided), and
the medians differ by 5 % or more. Few samples cannot show that: it takes five on each side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

from figures import Figure, value_text

CHANCE = 0.01
LEAST_CHANGE = 0.05
WORSE, BETTER, SAME = "worse", "better", ""


@dataclass(frozen=True)
class Row:
    """One figure in both files. over: what ours was divided by, "" for nothing.

    verdict: WORSE, BETTER, SAME, or why it cannot be said. lost: goals that are not met any more.
    """

    name: str
    over: str
    old: float
    new: float
    unit: str
    verdict: str
    lost: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at it."""
        return self.verdict == WORSE or bool(self.lost)

    def text(self) -> str:
        """Write it as a line."""
        unit = f"× {self.over}" if self.over else self.unit
        change = f"{100 * (self.new / self.old - 1):+.0f} %" if self.old else ""
        values = f"{value_text(self.old, '')} → {value_text(self.new, '')} {unit}"
        lost = "; ".join(f"goal missed now: {goal}" for goal in self.lost)
        return "  ".join(filter(None, (f"{self.name:<58}{values:<32}", change, self.verdict, lost)))


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Row]:
    """Compare the figures that both results have, in the order of the new ones."""
    before = figures_of(old)
    rows: list[Row] = []
    for name, (figure, machine) in figures_of(new).items():
        if name in before:
            earlier, there = before[name]
            rows.append(compare(name, earlier, figure, same_machine=machine == there))
    return rows


def figures_of(results: Mapping[str, Any]) -> dict[str, tuple[Figure, Any]]:
    """Give each figure of results, with its machine, by its name."""
    return {
        f"{name}: {each['name']}" + (f" ({each['peer']})" if each["peer"] else ""): (
            Figure.from_dict(each),
            told.get("machine", results["machine"]),
        )
        for name, told in results["benchmarks"].items()
        for each in told["figures"]
    }


def compare(name: str, old: Figure, new: Figure, *, same_machine: bool) -> Row:
    """Compare one figure."""
    both = [s for s in ("limit", "peer") if _divides(old, s) and _divides(new, s)]
    side = both[0] if both else ""
    before, after = _values(old, side), _values(new, side)
    lost = tuple(
        goal.text(new)
        for goal in new.goals
        if goal.met(new) is False and goal in old.goals and goal.met(old)
    )
    if not before or not after:
        return Row(name, side, 0, 0, new.unit, "was not measured", lost)
    medians = statistics.median(before), statistics.median(after)
    if not side and not same_machine:
        verdict = "cannot be compared: another machine"
    else:
        verdict = judge(before, after)
    over = new.peer if side == "peer" else side
    return Row(name, over, *medians, new.unit, verdict, lost)


def _divides(figure: Figure, side: str) -> bool:
    """Whether each sample of ours has one of that side beside it, which it can be divided by."""
    theirs, ours = figure.samples.get(side, ()), figure.samples.get("ours", ())
    return bool(theirs) and len(theirs) == len(ours) and all(value > 0 for value in theirs)


def _values(figure: Figure, side: str) -> list[float]:
    ours = figure.samples.get("ours", ())
    if not side:
        return list(ours)
    return [value / base for value, base in zip(ours, figure.samples[side], strict=True)]


def judge(before: Sequence[float], after: Sequence[float]) -> str:
    """Say whether the second samples are worse (larger), better, or the same but for noise."""
    old, new = statistics.median(before), statistics.median(after)
    if chance(len(before), len(after), 0) > CHANCE:
        return f"too few samples ({len(before)} and {len(after)})"
    if abs(new - old) < LEAST_CHANGE * old or new == old:
        return SAME
    low, high, verdict = (before, after, WORSE) if new > old else (after, before, BETTER)
    wrong = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in low for b in high)
    return verdict if chance(len(low), len(high), int(wrong + 0.5)) <= CHANCE else SAME


def chance(n: int, m: int, wrong: int) -> float:
    """Give the chance that, of equal things, at most so many of n × m pairs stand the wrong way."""
    return sum(_orders(n, m, u) for u in range(wrong + 1)) / comb(n + m, n)


@cache
def _orders(n: int, m: int, wrong: int) -> int:
    """Count the orders of n and m things in which exactly so many pairs stand the wrong way."""
    if wrong < 0:
        return 0
    if not n or not m:
        return int(wrong == 0)
    return _orders(n - 1, m, wrong - m) + _orders(n, m - 1, wrong)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, metavar="OLD", help="results as `run.py` writes them")
    parser.add_argument("new", type=Path, metavar="NEW", help="the same, of later")
    parser.add_argument("--all", action="store_true", help="show also what stayed as it was")
    options = parser.parse_args(arguments)
    try:
        old, new = (json.loads(p.read_text(encoding="utf-8")) for p in (options.old, options.new))
        rows = compared(old, new)
    except (OSError, ValueError, KeyError) as e:
        print(f"compare: {type(e).__name__}: {e}", file=sys.stderr)
        return 2
    for row in rows:
        if options.all or row.verdict != SAME or row.lost:
            print(row.text())
    counts = {v: sum(row.verdict == v for row in rows) for v in (WORSE, BETTER)}
    print(f"{len(rows)} figures compared: {counts[WORSE]} worse, {counts[BETTER]} better")
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    sys.exit(main())
