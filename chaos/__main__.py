"""Runs rows, prints how they went, and keeps the results for docs/reliability.md (--write)."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from chaos.results import keep, line_of, write
from chaos.rows import NAMES, row_of
from chaos.runner import new_seed, run_row


def main() -> int:
    """Run the rows that the command line names, and give the exit code: 1 if a trial failed."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--trials", type=int, help="of each row")
    parser.add_argument("--full", action="store_true", help="as many as show what is promised")
    parser.add_argument("--seed", type=int, help="of the only trial: one that failed, again")
    parser.add_argument("--write", action="store_true", help="keep the results, write the page")
    given = parser.parse_args()
    if unknown := {*given.rows} - {*NAMES}:
        parser.error(f"there is no row {unknown.pop()!r}; there are {', '.join(NAMES)}")
    if given.trials is not None and given.trials < 1:
        parser.error("--trials must be 1 or more")
    good, around = True, None
    with contextlib.ExitStack() as surroundings:
        for name in given.rows or NAMES:
            row = row_of(name)
            if lack := row.lacks():
                print(f"{name}: not here: {lack}", flush=True)
                continue
            if row.around is not around:
                surroundings.close()
                surroundings.enter_context(row.around())
                around = row.around
            usual = row.full if given.full else row.trials
            trials = 1 if given.seed is not None else given.trials or usual
            seed = new_seed() if given.seed is None else given.seed
            print(f"{name}: {trials} trials from seed {seed}", flush=True)
            told = run_row(name, row, trials, seed)
            print(line_of(name, told), flush=True)
            good = good and not told.failed and not told.problems
            if given.write and trials >= row.trials:  # fewer say too little
                keep(name, told, time.strftime("%Y-%m-%d", time.gmtime()))
                write()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
