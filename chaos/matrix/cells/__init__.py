"""The cells of the matrix, by subject and by name."""

from __future__ import annotations

from chaos.matrix.cell import Cell
from chaos.matrix.cells import (
    cgroups,
    containers,
    directories,
    missing,
    musl,
    plain,
    pythons,
    users,
)

SUBJECTS: dict[str, dict[str, Cell]] = {
    "As it is": plain.CELLS,
    "Pythons": {**pythons.CELLS, **musl.CELLS},
    "Users": users.CELLS,
    "Containers": containers.CELLS,
    "Something of the kernel is missing": missing.CELLS,
    "Cgroups": cgroups.CELLS,
    "Directories": directories.CELLS,
}
CELLS: dict[str, Cell] = {name: cell for cells in SUBJECTS.values() for name, cell in cells.items()}
# A few quick ones, for the tests.
SHORT = ("plain", "no_pidfd_open", "no_memfd_create")
