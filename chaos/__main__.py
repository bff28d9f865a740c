"""python -m chaos: runs rows, prints their table, and writes it.

CHAOS: names of rows, with spaces between them (all). CHAOS_TRIALS: how many trials of each.
CHAOS_SEED: the seed of the first trial; alone, it is the only one. CHAOS_SHORT=1: few trials.
CHAOS_SLOW: times may be so many times as long, on a machine that does other things, too.
"""

from __future__ import annotations

import os
import sys
import time

from chaos.results import keep, line_of, write
from chaos.rows import NAMES, row_of
from chaos.runner import new_seed, run_row


def main() -> int:
    """Run what the environment names, and give the exit code: 1 if a trial failed."""
    names = os.environ.get("CHAOS", "").split() or list(NAMES)
    given = os.environ.get("CHAOS_SEED")
    short = os.environ.get("CHAOS_SHORT") == "1"
    good = True
    for name in names:
        row = row_of(name)
        lack = row.lacks()
        if lack:
            print(f"{name}: not here: {lack}", flush=True)
            continue
        usual = 1 if given else row.short if short else row.trials
        trials = int(os.environ.get("CHAOS_TRIALS", usual))
        seed = int(given) if given else new_seed()
        print(f"{name}: {trials} trials from seed {seed}", flush=True)
        told = run_row(name, row, trials, seed)
        print(line_of(name, told), flush=True)
        good = good and not told.failed and not told.problems
        if "--write" in sys.argv[1:] and not given and not short:
            keep(name, told, seed, time.strftime("%Y-%m-%d", time.gmtime()))
    if "--write" in sys.argv[1:] and not given and not short:
        write()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
