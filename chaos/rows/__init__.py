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
    """Give a row by its name. Raises ValueError for one that is not there."""
    if name not in NAMES:
        raise ValueError(f"there is no row {name!r}; there are {', '.join(NAMES)}")
    row = import_module(f"chaos.rows.{name}").ROW
    assert isinstance(row, Row)
    return row
