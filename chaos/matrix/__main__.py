"""python -m chaos.matrix: runs cells, and says of each what it is.

CELL: names of cells, with spaces between them (all). --write: keep the results, and write the page.
"""

from __future__ import annotations

import os
import sys

from chaos.matrix.cells import CELLS
from chaos.matrix.results import keep, write
from chaos.matrix.runner import run_cell


def main() -> int:
    """Run what the environment names; gives 1 if a cell is broken or doctor says otherwise."""
    names = os.environ.get("CELL", "").split() or list(CELLS)
    good = True
    for name in names:
        if name not in CELLS:
            print(f"there is no cell {name!r}; there are: {', '.join(CELLS)}", file=sys.stderr)
            return 2
        ran = run_cell(CELLS[name])
        if "--write" in sys.argv[1:]:
            keep(name, ran)
        found = ran.verdict
        print("; ".join([f"{name}: {found.word}", *found.said]))
        for each in found.beside:
            print(f"    {each}")
        for each in found.problems:
            print(f"    WRONG: {each}")
        sys.stdout.flush()
        good = good and not found.problems
    if "--write" in sys.argv[1:]:
        write()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
