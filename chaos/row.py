"""A row of the table, and one trial of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

# A machine that does other things too takes longer: times may be so many times as long.
SLOW = float(os.environ.get("CHAOS_SLOW", "1"))


@dataclass
class Trial:
    """One fault. What is found wrong is noted, and the trial goes on to its end.

    seed: what all that is random comes from. place: an empty directory.
    done: what was done, for who reads of a failure. problems: what was wrong.
    figures: numbers, of which the table shows the largest. counts: what happened, for `Row.whole`.
    """

    seed: int
    place: Path
    done: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    figures: dict[str, float] = field(default_factory=dict[str, float])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        """Begin the random numbers."""
        self.chance = random.Random(self.seed)

    def do(self, what: str) -> None:
        """Note what is done."""
        self.done.append(what)
        with open(self.place / "done", "a", encoding="utf-8") as f:
            print(what, file=f)  # for who ends a trial that hangs

    def must(self, holds: bool, otherwise: str) -> None:
        """Note a problem if something does not hold."""
        if not holds:
            self.problems.append(otherwise)

    def took(self, what: str, seconds: float, most: float) -> None:
        """Note how long something took, and a problem if that was longer than `most` seconds."""
        self.figures[what] = max(seconds, self.figures.get(what, 0.0))
        self.must(seconds <= most * SLOW, f"{what}: {seconds:.2f} s, more than {most * SLOW:g} s")

    def count(self, what: str) -> None:
        """Count what happened."""
        self.counts[what] = self.counts.get(what, 0) + 1


@dataclass(frozen=True)
class Row:
    """A kind of fault.

    fault, holds: what is done and what must hold, for the table.
    full: trials that show what the project promises.
    limit: seconds after which a trial counts as hung.
    strike: makes one trial. whole: judges what all trials counted, and gives problems.
    lacks: tells what this machine lacks for it, "" for nothing.
    around: what has to be there while trials are made; rows one after the other share it.
    """

    fault: str
    holds: str
    full: int
    strike: Callable[[Trial], None]
    limit: float = 30.0
    whole: Callable[[dict[str, int]], Sequence[str]] = lambda counts: ()
    lacks: Callable[[], str] = lambda: ""
    around: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def trials(self) -> int:
        """How many trials the usual run makes."""
        return max(20, self.full // 6)
