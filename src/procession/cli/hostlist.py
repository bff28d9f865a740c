"""Slurm's short form of many names: `n[1-3,7],gpu-05` are n1, n2, n3, n7 and gpu-05. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

MOST = 100_000  # names in one list
_NAME = re.compile(r"(?:[^\[\],\s]+|\[[0-9,-]+\])+")
_RANGES = re.compile(r"\[([0-9,-]+)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")


def expand(text: str) -> list[str]:
    """Give the names that a list stands for, in its order. Raises ValueError for what is none.

    A number is filled with zeros to the width of the one that its range begins with. Several
    brackets in a name stand for every combination, the last one varying first.
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        name = _NAME.match(text, at)
        if name is None or (name.end() < len(text) and text[name.end()] != ","):
            raise ValueError(f"{text!r} is no list of hosts")
        found += islice(_names(name[0]), MOST + 1 - len(found))
        if len(found) > MOST:
            raise ValueError(f"{text[:40]!r}... stands for more than {MOST} hosts")
        at = name.end() + 1
    if not found or text.endswith(","):
        raise ValueError(f"{text!r} is no list of hosts")
    return found


def _names(pattern: str) -> Iterator[str]:
    brackets = _RANGES.search(pattern)
    if brackets is None:
        yield pattern
        return
    rest = pattern[brackets.end() :]
    for number in _numbers(brackets[1]):
        for end in _names(rest):
            yield pattern[: brackets.start()] + number + end


def _numbers(ranges: str) -> Iterator[str]:
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"{each!r} is no range of numbers")
        for number in range(int(found[1]), int(found[2] or found[1]) + 1):
            yield str(number).zfill(len(found[1]))


def expand_counts(text: str) -> list[int]:
    """Give the counts that `2(x3),1` stands for: 2, 2, 2, 1. Raises ValueError."""
    counts: list[int] = []
    for each in text.split(","):
        found = _TASKS.fullmatch(each)
        if found is None:
            raise ValueError(f"{text!r} is no list of counts")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


__all__ = ["expand", "expand_counts"]
