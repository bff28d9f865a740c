"""A cell of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.matrix.environment import Environment

WORKS, FALLS_BACK, REFUSES = "works", "works with a fallback", "refuses"
BROKEN, NOT_HERE = "broken", "cannot be had here"


@dataclass(frozen=True)
class Cell:
    """An environment, and what doctor must find different in it.

    what: for the page. worse: keys of doctor's findings that must be worse here than without the
    environment; all others must be as they are there. may: those that may be either, by what the
    machine has. needed: the check must be refused. python:
    the interpreter, "" for this one. lacks: why it cannot be had on this machine, "" if it can.
    note: for the page. bare: it is the machine itself, so that all that doctor says of it is told.
    """

    what: str
    environment: Environment = field(default_factory=Environment)
    worse: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    needed: bool = False
    python: Callable[[], str] = lambda: ""
    lacks: Callable[[], str] = lambda: ""
    note: str = ""
    bare: bool = False
