"""Patterns of names of environment variables: `X_*` stands for all that begin with `X_`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache


def among(patterns: Iterable[str], name: str) -> bool:
    """Tell whether a pattern matches the variable `name`."""
    names, beginnings = _taken_apart(tuple(patterns))
    return name in names or name.startswith(beginnings)


@cache
def _taken_apart(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    beginnings = tuple(p[:-1] for p in patterns if p.endswith("*"))
    return frozenset(p for p in patterns if not p.endswith("*")), beginnings
