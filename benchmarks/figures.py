"""What a benchmark found, and the arithmetic on it: medians, ratios, goals.

A figure is one line of the table: the samples of ours, of the peer, and of the limit, which is the
least that the kernel and the imports cost. Smaller is better, always.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What the median of ours is to be: at most so many times that of a side, or so much.

    of: "peer", "limit", or "" for a plain number in the figure's unit.
    """

    at_most: float
    of: str = ""

    def met(self, figure: Figure) -> bool | None:
        """Tell whether the figure meets it; None if what that takes was not measured."""
        value = figure.ratio(self.of) if self.of else figure.median("ours")
        return None if value is None else value <= self.at_most

    def text(self, figure: Figure) -> str:
        """Say it in words, such as `≤ 1/15 torchrun`."""
        if not self.of:
            return f"≤ {self.at_most:g} {figure.unit}".rstrip()
        times = f"1/{1 / self.at_most:.3g}" if self.at_most < 0.67 else f"{self.at_most:g} ×"
        return f"≤ {times} {figure.peer if self.of == 'peer' else 'limit'}"


@dataclass(frozen=True)
class Figure:
    """Samples of one quantity. samples: by side; a side that has none is not there."""

    name: str
    unit: str
    peer: str
    samples: Mapping[str, Sequence[float]]
    goals: Sequence[Goal] = field(default=())

    def median(self, side: str) -> float | None:
        """Give the median of a side, None if it was not measured."""
        samples = self.samples.get(side)
        return statistics.median(samples) if samples else None

    def ratio(self, side: str) -> float | None:
        """Give the median of ours over that of another side; None without either, or over 0."""
        ours, theirs = self.median("ours"), self.median(side)
        return None if ours is None or not theirs else ours / theirs

    def as_dict(self) -> dict[str, Any]:
        """Give the figure as JSON has it."""
        samples = {s: [float(f"{v:.6g}") for v in vs] for s, vs in self.samples.items()}
        return {**asdict(self), "samples": samples}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Figure:
        """Read what `as_dict` gave."""
        goals = [Goal(g["at_most"], g["of"]) for g in given["goals"]]
        return cls(given["name"], given["unit"], given["peer"], given["samples"], goals)


def nth(samples: Mapping[str, Sequence[Sequence[float]]], k: int) -> dict[str, list[float]]:
    """Give one quantity of each side, of samples that have several."""
    return {side: [taken[k] for taken in all_] for side, all_ in samples.items()}


def ratio_text(ratio: float | None) -> str:
    """Write a ratio as people say it: `1/15.2`, `1.31 ×`."""
    if not ratio:
        return "" if ratio is None else "0"
    if 0 < ratio < 0.67:
        return f"1/{1 / ratio:.3g}"
    return f"{ratio:.2f} ×"


def value_text(value: float | None, unit: str) -> str:
    """Write a value with three digits and its unit."""
    if value is None:
        return ""
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {unit}".rstrip()
