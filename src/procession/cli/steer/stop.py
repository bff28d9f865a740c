"""`procession stop`: end a run from another terminal, and say how it ended."""

from __future__ import annotations

from procession.cli import readers
from procession.cli.commands import parser_of
from procession.cli.say import say_note, say_out
from procession.cli.steer.finding import read_run
from procession.cli.words import Option
from procession.control.ask import Ended
from procession.control.runs import connect

MARGIN = 30.0  # seconds beyond the grace period
DEFAULT_GRACE = 30.0
EPILOG = """\
The ranks get the stop signal, time to obey, then SIGKILL, as after Ctrl-C in the run's own
terminal; the command there exits with 128 + the number of the signal.

exit codes: 0 if the run is gone, however it ended; 1 if it is still there, or does not answer; 2
for a wrong command line, or where there is no such run.

examples:
  procession stop last
  procession stop train.py --signal SIGUSR1 --grace 120
"""
PARSER = parser_of(
    "stop", "RUN [--signal SIG] [--grace S] [--kill]", EPILOG,
    (
        Option(("--signal",), "SIG", "the stop signal, such as SIGINT (default: the run's own)",
            read=readers.any_signal),
        Option(("--grace",), "SECONDS", "from the signal to SIGKILL (default: the run's own)",
            read=readers.SECONDS),
        Option(("--kill",), "", "SIGKILL at once"),
    ),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Stop a run; returns the exit code."""
    options, run = read_run(PARSER, words)
    number, grace = options.get("signal"), options.get("grace")
    if options.get("kill") and (number is not None or grace is not None):
        PARSER.error("--kill goes with neither --signal nor --grace")
    if not run.socket:
        if run.runs:
            PARSER.error(f"{run.id} cannot be reached; send a signal to pid {run.launcher}")
        say_out(f"procession: {run.id} has ended before ({run.state.lower()})")
        return 0
    try:
        with connect(run) as connection:
            if options.get("kill"):
                connection.ask("kill")
            else:
                connection.ask("stop", signal=number, grace=grace)
            patience = (DEFAULT_GRACE if grace is None else grace) + MARGIN
            state = ""
            for said in connection.events(patience):
                state = said["state"] if said.get("event") == "over" else state
            end = connection.end
    except Ended:
        say_out(f"procession: {run.id} has ended")
        return 0
    if end is None and not state:
        say_note(f"{run.id} is still there after {patience:g} s [P313]")
        return 1
    how = (end or {"state": state})["state"].lower()
    code = f", exit code {end['code']}" if end is not None else ""
    say_out(f"procession: {run.id} {'was stopped' if how == 'stopped' else how}{code}")
    return 0
