"""The rows of the table: each is a module with a `ROW`."""

from __future__ import annotations

from importlib import import_module

from chaos.row import Row

NAMES = (
    "ranks_end",
    "two_failures",
    "launcher_killed",
    "forkserver_killed",
    "output",
    "hangs",
    "nodes",
    "slurm",
    "templates",
    "signals",
)


def row_of(name: str) -> Row:
    """Give a row by its name."""
    row = import_module(f"chaos.rows.{name}").ROW
    assert isinstance(row, Row)
    return row
