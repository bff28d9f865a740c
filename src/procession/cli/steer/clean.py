"""`procession clean`: end and remove what killed launchers have left."""

from __future__ import annotations

from procession.cli.commands import parser_of
from procession.cli.say import say_out
from procession.cli.steer.finding import command_line, read_alone
from procession.cli.words import Option
from procession.control.leftover import (
    dead_scratch,
    dead_sockets,
    end_processes,
    find_left,
)
from procession.output.text import shown
from procession.system.processes import Seen

EPILOG = """\
A run's processes are known by their environment, which names the launcher; those of the start
method fork are not known. Only what belongs to a launcher that is gone is touched: its processes
get SIGTERM, and SIGKILL three seconds later; its socket and its scratch directory are removed. What
runs is left alone. Nothing is asked.

exit codes: 0; 1 if something did not go; 2 for a wrong command line.
"""
OPTIONS = (Option(("--dry-run",), "", "only say what would be done"),)


PARSER = parser_of("clean", "[--dry-run]", EPILOG, OPTIONS)


def main(words: list[str]) -> int:
    """Clean up; returns the exit code."""
    options = read_alone(PARSER, words)
    dry = options.get("dry_run")
    ended, removed = ("would end", "would remove") if dry else ("ended", "removed")
    processes = find_left()
    left = [] if dry else end_processes(processes)
    lines = [f"{ended} {_described(p)}" for p in processes if p not in left]
    lines += [f"did not go: {_described(p)}" for p in left]
    lines += [f"{removed} the socket of {name}" for name in dead_sockets(remove=not dry)]
    lines += [f"{removed} {path}" for path in dead_scratch(remove=not dry)]
    say_out("".join(f"{line}\n" for line in lines or ["there was nothing to clean"]))
    return 1 if left else 0


def _described(process: Seen) -> str:
    run = process.env.get("PROCESSION_RUN", "")
    rank = f"rank {process.env['RANK']} of " if "RANK" in process.env else ""
    return f"pid {process.pid} ({rank}{run or 'a run'}): {shown(command_line(process.words))}"
