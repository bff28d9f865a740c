"""`procession warm`: list what is kept for the next run, or end it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from procession.cli.commands import parser_of
from procession.cli.say import say, say_note, say_out
from procession.cli.words import Option
from procession.control.words import table
from procession.system.directories import Refused
from procession.values.figures import duration, size
from procession.warm.templates import Gone, Unusable, templates

SHOWN = 4  # packages that a line names
WAYS = ("list", "stop")
EPILOG = """\
A run with --warm keeps the process with its imports for the next run. MEMORY is its proportional
share of memory (PSS), RUNS the number of runs that it has served, and LEFT the time until it ends
without another run. A process that a run is using is not in the list.

procession warm stop ends all of them.

exit codes: 0; 1 if one does not answer; 2 for a wrong command line.
"""
PARSER = parser_of(
    "warm", "[list | stop] [--json]", EPILOG,
    (Option(("--json",), "", "print all facts as JSON"),),
)  # fmt: skip


def main(words: list[str]) -> int:
    """List what is kept, or end it; returns the exit code."""
    options, rest = PARSER.read(words, mixed=True)
    if len(rest) > 1 or (rest and rest[0] not in WAYS):
        PARSER.error(f"it takes one of {', '.join(WAYS)}, not {' '.join(rest)!r}")
    kept: list[dict[str, Any]] = []
    try:
        found = templates()
        if rest == ["stop"]:
            ended = sum(each.end() for each in found)
            say_out(f"procession: {ended} ended, except what a run uses")
            return 0
        for each in found:
            with suppress(Gone):
                kept.append(each.describe())
    except (Unusable, OSError, Refused) as e:
        say(f"procession warm: error: what is kept cannot be seen: {e} [P314]\n", sys.stderr)
        return 1
    if options.get("json"):
        say_out(json.dumps(kept, indent=2))
    elif kept:
        rows = [("PID", "AGE", "LEFT", "RUNS", "MEMORY", "IMPORTS"), *map(_row, kept)]
        say_out(table(rows))
    else:
        say_note("nothing is kept")
    return 0


def _row(kept: Mapping[str, Any]) -> tuple[str, ...]:
    packages = list(dict.fromkeys(name.partition(".")[0] for name in kept["modules"]))
    named = ", ".join(packages[:SHOWN]) or "nothing"
    more = f" and {len(packages) - SHOWN} more" if len(packages) > SHOWN else ""
    count = len(kept["modules"])
    modules = f" ({count} module{'s'[: count > 1]})" if packages else ""
    return (
        str(kept["pid"]),
        duration(kept["age"]),
        duration(max(0.0, kept["seconds"] - kept["age"])),
        str(kept["uses"]),
        size(kept["memory"]),
        f"{named}{more}{modules}",
    )
