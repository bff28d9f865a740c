"""The kinds of fault that every launcher gets."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.programs.peer_rank import FLOODS, WAYS

NPROC = 4
AT_ONCE = ("_exit", "SIGKILL", "SIGSEGV")  # the process is gone in the moment of its failure
GAPS = (0.005, 0.02, 0.05, 0.1)  # seconds


@dataclass(frozen=True)
class Kind:
    """A kind of fault. fault: in words. plan: what ranks do, with random numbers.

    signals: what the launcher gets, and seconds before the next.
    """

    fault: str
    plan: Callable[[random.Random], dict[str, Any]]
    signals: tuple[tuple[int, float], ...] = ()


def _fails(chance: random.Random) -> dict[str, Any]:
    return {"losers": [[chance.randrange(NPROC), chance.choice(WAYS), 0.0]]}


def _two(chance: random.Random) -> dict[str, Any]:
    one, other = chance.sample(range(NPROC), 2)
    gap = chance.choice(GAPS)
    return {"losers": [[one, chance.choice(AT_ONCE), 0.0], [other, chance.choice(AT_ONCE), gap]]}


def _stubborn(chance: random.Random) -> dict[str, Any]:
    loser, other = chance.sample(range(NPROC), 2)
    return {"losers": [[loser, chance.choice(WAYS), 0.0]], "ignores": [other]}


KINDS = {
    "fails": Kind(
        "a random rank of 4 fails at a random moment: an exception, an exit code, SIGKILL, SIGSEGV",
        _fails,
    ),
    "two": Kind(
        "two ranks of 4 fail 5 to 100 ms apart, each by `_exit`, SIGKILL or SIGSEGV",
        _two,
    ),
    "stubborn": Kind(
        "a rank fails, another one ignores SIGTERM; where the launcher can be told a time to wait, "
        "that is 3 s",
        _stubborn,
    ),
    "term": Kind(
        "SIGTERM to the launcher",
        lambda chance: {},
        ((signal.SIGTERM, 0.0),),
    ),
    "twice": Kind(
        "SIGINT to the launcher, twice, 0.3 s apart; a rank ignores SIGTERM",
        lambda chance: {"ignores": [chance.randrange(NPROC)]},
        ((signal.SIGINT, 0.3), (signal.SIGINT, 0.0)),
    ),
    "killed": Kind(
        "SIGKILL to the launcher; each rank has a child",
        lambda chance: {"children": True},
        ((signal.SIGKILL, 0.0),),
    ),
    "output": Kind(
        "all ranks write at once into the launcher's console, a pipe: lines of 100 kB, 5,000 lines "
        "each at full speed, or lines in two halves",
        lambda chance: {"flood": chance.choice(FLOODS)},
    ),
}
