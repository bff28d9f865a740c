"""python -m chaos: runs rows, prints their table, and writes it (--write). See --help."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from chaos import peers
from chaos.guard import guarded
from chaos.results import keep, line_of, why_not_writable, write
from chaos.row import Row, number_from
from chaos.rows import NAMES, row_of
from chaos.runner import new_seed, run_row

VARIABLES = """
CHAOS           names of rows, with spaces between them; all of them if it is not set.
                peers: other launchers; peers.torchrun: one of them; peers.torchrun.fails: one row
CHAOS_TRIALS    how many trials of each row; full: as many as the third column says. Results of
                fewer trials than the usual ones are not kept
CHAOS_SEED      the seed of the only trial: one that failed, again
CHAOS_SHORT=1   the few trials that the tests make
CHAOS_SLOW      times may be so many times as long, where the machine does other things, too (1)
CHAOS_PEERS     the interpreter whose environment has the other launchers (.venv-bench/bin/python)

--write         keep the results in chaos/results.json, and write the tables of docs/reliability.md
--tables        write these tables from the results that are kept
"""


def main() -> int:
    """Run what the environment names, and give the exit code: 1 if a trial failed."""
    words = sys.argv[1:]
    if unknown := {*words} - {"--help", "-h", "--write", "--tables"}:
        print(f"unknown: {' '.join(sorted(unknown))}; see python -m chaos --help", file=sys.stderr)
        return 2
    if {"--help", "-h"} & {*words}:
        print(_help())
        return 0
    if "--tables" in words:
        write()
        return 0
    try:
        names = _named(os.environ.get("CHAOS", "").split() or [*NAMES, "peers"])
    except ValueError as e:
        print(f"CHAOS: {e}", file=sys.stderr)
        return 2
    given, short = os.environ.get("CHAOS_SEED"), os.environ.get("CHAOS_SHORT") == "1"
    seed_given = int(number_from("CHAOS_SEED", "0", 0))
    asked = os.environ.get("CHAOS_TRIALS", "")
    count = 0 if asked in ("", "full") else int(number_from("CHAOS_TRIALS", "1", 1))
    writes = "--write" in words and not given and not short
    if writes and (why := why_not_writable()):
        print(f"nothing is run: {why}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _ended)
    try:
        with guarded():
            return _run(names, count, asked == "full", seed_given if given else None, short, writes)
    except KeyboardInterrupt:
        print("interrupted; the row that was being made is not kept", file=sys.stderr)
        return 128 + signal.SIGINT


def _ended(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _run(
    names: list[str], count: int, full: bool, given: int | None, short: bool, writes: bool
) -> int:
    """Run rows. count: trials of each, 0 for as many as the row says. given: the only seed."""
    good, around = True, None
    with contextlib.ExitStack() as surroundings:
        for name in names:
            row = row_of(name)
            if lack := row.lacks():
                print(f"{name}: not here: {lack}", flush=True)
                continue
            if row.around is not around:
                surroundings.close()
                surroundings.enter_context(row.around())
                around = row.around
            trials = 1 if given is not None else count or _trials(row, full=full, short=short)
            seed = new_seed() if given is None else given
            print(f"{name}: {trials} trials from seed {seed}", flush=True)
            told = run_row(name, row, trials, seed)
            print(line_of(name, told), flush=True)
            good = good and not told.failed and not told.problems
            if writes and trials < row.trials:
                print(f"{name}: not kept: {trials} trials, and {row.trials} are the usual ones")
            elif writes:
                keep(name, told, seed, time.strftime("%Y-%m-%d", time.gmtime()))
    if writes:
        write()
    return 0 if good else 1


def _named(words: list[str]) -> list[str]:
    """Give the rows that are named, with those of peers one by one."""
    names: list[str] = []
    for word in words:
        names += peers.names(word) if word.partition(".")[0] == "peers" else [word]
    for name in names:
        row_of(name)  # raises what is wrong with it
    return names


def _trials(row: Row, *, full: bool, short: bool) -> int:
    return row.full if full else row.short if short else row.trials


def _help() -> str:
    """Say what can be run, with how many trials, and what can be set."""
    lines = ["python -m chaos [--write]: makes faults at random moments, and judges each.", ""]
    lines.append(f"{'row':<20}{'trials':>7}{'full':>6}  fault")
    for name in (*NAMES, *peers.names("peers")[: len(peers.KINDS)]):
        row = row_of(name)
        shown = name.replace(f".{peers.PEERS[0]}.", ".PEER.")
        fault = row.fault.partition(": ")[2] if name != shown else row.fault
        short = fault if len(fault) < 100 else f"{fault[:97]}..."
        lines.append(f"{shown:<20}{row.trials:>7}{row.full:>6}  {short}")
    lines.append(f"\nPEER is one of {', '.join(peers.PEERS)}.\n\nVariables:")
    return "\n".join(lines) + VARIABLES.rstrip()


if __name__ == "__main__":
    sys.exit(main())
