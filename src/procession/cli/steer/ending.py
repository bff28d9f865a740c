"""`procession stop` ends a run; `procession clean` ends what killed launchers have left."""

from __future__ import annotations

from typing import Any

from procession.cli import readers
from procession.cli.commands import parser_of
from procession.cli.say import say_note, say_out
from procession.cli.steer.finding import command_line
from procession.cli.words import Option
from procession.control.ask import RunEnded
from procession.control.leftover import dead_scratch, dead_sockets, end_processes, find_left
from procession.control.runs import Run, connect
from procession.output.text import shown
from procession.system.processes import ProcessInfo

MARGIN = 30.0  # seconds beyond the grace period
DEFAULT_GRACE = 30.0
STOP = """\
The ranks get the stop signal, a grace period, then SIGKILL, as after Ctrl-C in the terminal of the
run. The command there exits with 128 + the number of the signal.

exit codes: 0 if the run has ended; 1 if it is still active or does not answer; 2 for a wrong
command line or an unknown run.

examples:
  procession stop last
  procession stop train.py --signal SIGUSR1 --grace 120
"""
CLEAN = """\
The command finds processes by their environment, which names their launcher, except those of the
start method fork. It touches only what belongs to launchers that are gone. Processes get SIGTERM,
and SIGKILL three seconds later. Sockets and scratch directories are removed. It asks no question.

exit codes: 0; 1 if something is left; 2 for a wrong command line.
"""
PARSERS = {
    "stop": parser_of(
        "stop", "RUN [--signal SIG] [--grace S] [--kill]", STOP,
        (
            Option(("--signal",), "SIG", "stop with this signal (default: that of the run)",
                read=readers.any_signal),
            Option(("--grace",), "SECONDS",
                "wait SECONDS before SIGKILL (default: that of the run)", read=readers.SECONDS),
            Option(("--kill",), "", "send SIGKILL at once"),
        ),
    ),
    "clean": parser_of(
        "clean", "[--dry-run]", CLEAN, (Option(("--dry-run",), "", "print what would be done"),)
    ),
}  # fmt: skip


def stop(options: dict[str, Any], run: Run) -> int:
    """Stop a run; returns the exit code."""
    number, grace = options.get("signal"), options.get("grace")
    if options.get("kill") and (number is not None or grace is not None):
        PARSERS["stop"].error("--kill goes with neither --signal nor --grace")
    if not run.socket:
        if run.runs:
            PARSERS["stop"].error(
                f"{run.id} cannot be reached; send a signal to pid {run.launcher}"
            )
        say_out(f"procession: {run.id} has ended before ({run.state.lower()})")
        return 0
    try:
        with connect(run) as connection:
            if options.get("kill"):
                connection.ask("kill")
            else:
                connection.ask("stop", signal=number, grace=grace)
            patience = (DEFAULT_GRACE if grace is None else grace) + MARGIN
            for _ in connection.events(patience):
                pass
            end = connection.end
    except RunEnded:
        say_out(f"procession: {run.id} has ended")
        return 0
    if end is None:
        say_note(f"{run.id} is still there after {patience:g} s [P313]")
        return 1
    how = "was stopped" if end["state"] == "STOPPED" else end["state"].lower()
    where = "".join(f"\n  {line}" for line in end.get("stacks", ()))
    where = where and f"\nwhen it was stopped, the ranks were:{where}"
    say_out(f"procession: {run.id} {how}, exit code {end['code']}{where}")
    return 0


def clean(options: dict[str, Any]) -> int:
    """Clean up; returns the exit code."""
    dry = options.get("dry_run")
    ended, removed = ("would end", "would remove") if dry else ("ended", "removed")
    processes = find_left()
    left = [] if dry else end_processes(processes)
    lines = [f"{ended} {_described(p)}" for p in processes if p not in left]
    lines += [f"did not go: {_described(p)}" for p in left]
    lines += [f"{removed} the socket of {name}" for name in dead_sockets(remove=not dry)]
    lines += [f"{removed} {path}" for path in dead_scratch(remove=not dry)]
    say_out("".join(f"{line}\n" for line in lines or ["nothing to clean"]))
    return 1 if left else 0


def _described(process: ProcessInfo) -> str:
    run = process.env.get("PROCESSION_RUN", "")
    rank = f"rank {process.env['RANK']} of " if "RANK" in process.env else ""
    return f"pid {process.pid} ({rank}{run or 'a run'}): {shown(command_line(process.words))}"
