"""The rows of the table: each is a module with a `ROW`, or with one for each of several engines."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import procession
from chaos.row import Row
from chaos.runner import ROOT

NAMES = (
    "ranks_end",
    "two_failures",
    "launcher_killed",
    "agent_killed",
    "output",
    "hangs",
    "machines:ssh",
    "machines:slurm",
    "machines:c10d",
    "slurm",
    "templates",
    "signals",
)


def row_of(name: str) -> Row:
    """Give a row by its name."""
    module, _, engine = name.partition(":")
    row = import_module(f"chaos.rows.{module}").ROW
    row = row[engine] if engine else row
    assert isinstance(row, Row)
    return row


def failure_of(program: Any, **options: Any) -> Any:
    """Run a group that must fail, and give its failure."""
    try:
        procession.run(program, **options)
    except (procession.GroupFailed, procession.StartFailed) as failed:
        return failed
    raise AssertionError("the group did not fail")


def of_tests(name: str) -> Any:
    """Give a module of the tests, which start clusters. Raises ImportError."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    return import_module(name)
