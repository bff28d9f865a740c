"""`procession warm`: list what is kept for the next run, or end it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from procession.cli.say import say
from procession.cli.words import Option, Parser
from procession.control.words import table
from procession.values.figures import duration, size
from procession.warm.client import Connection, NoKeeper, Unusable

SHOWN = 4  # packages that a line names
WAYS = ("list", "stop")
PARSER = Parser(
    "procession warm",
    (Option(("--json",), "", "print all that is known as JSON"),),
    hint="; see procession warm --help",
    usage="procession warm [list | stop] [--json]",
    description="List or end what is kept for the next run.",
    epilog="""\
Runs with --warm leave what they have imported to a small process of this user, from which the next
run takes it. MEMORY is what each has for itself, and its part of what it shares (PSS); RUNS how
many it has served; LEFT how long it is kept if no run takes it. A process that a run uses just now
is not in the list.

`procession warm stop` ends all of it. So does the end of that small process, however it ends.

exit codes: 0; 1 if it does not answer; 2 for a wrong command line.
""",
)


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
                say(f"procession: {ended} ended, and nothing is kept\n", sys.stdout)
                return 0
            kept = connection.list()
    except NoKeeper:
        kept = []
    except Unusable as e:
        pid = f"; what it keeps goes with it: kill -9 {keeper}" if keeper else ""
        say(f"procession warm: error: the keeper cannot be used: {e}{pid} [P314]\n", sys.stderr)
        return 1
    if options.get("json"):
        say(json.dumps(kept, indent=2) + "\n", sys.stdout)
    elif kept:
        rows = [("PID", "AGE", "LEFT", "RUNS", "MEMORY", "IMPORTS"), *map(_row, kept)]
        say(table(rows), sys.stdout)
    else:
        say("procession: nothing is kept\n", sys.stderr)
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
