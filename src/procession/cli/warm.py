"""`procession warm`: list what is kept for the next run, or end it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from procession.cli.commands import parser_of
from procession.cli.say import say, say_note, say_out
from procession.cli.words import Option
from procession.control.words import table
from procession.values.figures import duration, size
from procession.warm.client import Connection, NoKeeper, Unusable

SHOWN = 4  # packages that a line names
WAYS = ("list", "stop")
EPILOG = """\
Runs with --warm leave what they have imported to a small process of this user, from which the next
run takes it. MEMORY is what each has for itself, and its part of what it shares (PSS); RUNS how
many it has served; LEFT how long it is kept if no run takes it. A process that a run uses just now
is not in the list.

`procession warm stop` ends all of it. So does the end of that small process, however it ends.

exit codes: 0; 1 if it does not answer; 2 for a wrong command line.
"""
PARSER = parser_of(
    "warm", "[list | stop] [--json]", EPILOG,
    (Option(("--json",), "", "print all that is known as JSON"),),
)  # fmt: skip


def main(words: list[str]) -> int:
    """List what is kept, or end it; returns the exit code."""
    options, rest = PARSER.read(words, mixed=True)
    if len(rest) > 1 or (rest and rest[0] not in WAYS):
        PARSER.error(f"it takes one of {', '.join(WAYS)}, not {' '.join(rest)!r}")
    keeper = 0
    try:
        with closing(Connection()) as connection:
            keeper = connection.pid
            if rest == ["stop"]:
                ended = connection.stop()
                say_out(f"procession: {ended} ended, and nothing is kept")
                return 0
            kept = connection.list()
    except NoKeeper:
        kept = []
    except Unusable as e:
        pid = f"; what it keeps goes with it: kill -9 {keeper}" if keeper else ""
        say(f"procession warm: error: the keeper cannot be used: {e}{pid} [P314]\n", sys.stderr)
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
    modules = f" ({len(kept['modules'])} modules)" if packages else ""
    return (
        str(kept["pid"]),
        duration(kept["age"]),
        duration(max(0.0, kept["seconds"] - kept["age"])),
        str(kept["uses"]),
        size(kept["memory"]),
        f"{named}{more}{modules}",
    )
