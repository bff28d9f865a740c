"""`procession stop`: end a run from another terminal, and say how it ended."""

from __future__ import annotations

import signal
import sys
import time

from procession.cli.parser import Parser, near
from procession.cli.say import say
from procession.cli.steering import parser_of, read_run
from procession.control.ask import NotAnswered
from procession.control.runs import connect

MARGIN = 30.0  # seconds beyond the grace period
DEFAULT_GRACE = 30.0
LAST_WORDS = 5.0  # seconds that the launcher has to go when all ranks are gone
EPILOG = """\
The ranks get the stop signal, time to obey, then SIGKILL, as after Ctrl-C in the run's own
terminal; the command there exits with 128 + the number of the signal.

exit codes: 0 if the run is gone, however it ended; 1 if it is still there, or does not answer; 2
for a wrong command line, or where there is no such run.

examples:
  procession stop last
  procession stop train.py --signal SIGUSR1 --grace 120
"""


def make_parser() -> Parser:
    """Make the parser."""
    parser = parser_of("stop", "RUN [--signal SIG] [--grace S] [--kill]", EPILOG)
    add = parser.add_argument
    add("--signal", metavar="SIG", help="the stop signal, such as SIGINT (default: the run's own)")
    add("--grace", metavar="SECONDS", help="from the signal to SIGKILL (default: the run's own)")
    add("--kill", action="store_true", help="SIGKILL at once")
    return parser


def main(words: list[str]) -> int:
    """Stop a run; returns the exit code."""
    parser = make_parser()
    options, run = read_run(parser, words)
    number = _signal(parser, options.signal) if options.signal is not None else None
    grace = _seconds(parser, options.grace) if options.grace is not None else None
    if options.kill and (number is not None or grace is not None):
        parser.error("--kill goes with neither --signal nor --grace")
    if not run.socket:
        if run.runs:
            parser.error(f"{run.id} cannot be reached; send a signal to pid {run.launcher}")
        say(f"procession: {run.id} has ended before ({run.state.lower()})\n", sys.stdout)
        return 0
    try:
        with connect(run) as connection:
            if options.kill:
                connection.ask("kill")
            else:
                connection.ask("stop", signal=number, grace=grace)
            patience = (DEFAULT_GRACE if grace is None else grace) + MARGIN
            state = ""
            until = time.monotonic() + patience
            for said in connection.events(patience):
                if said.get("event") == "over":
                    state = said["state"]
                    break
            for _ in connection.events(max(LAST_WORDS, until - time.monotonic()) if state else 0):
                pass
            end = connection.end
    except NotAnswered as e:
        if "ended" in str(e):
            say(f"procession: {run.id} has ended\n", sys.stdout)
            return 0
        say(f"procession stop: error: {e}\n", sys.stderr)
        return 1
    if end is None and not state:
        say(f"procession: {run.id} is still there after {patience:g} s\n", sys.stderr)
        return 1
    how = (end or {"state": state})["state"].lower()
    code = f", exit code {end['code']}" if end is not None else ""
    say(f"procession: {run.id} {'was stopped' if how == 'stopped' else how}{code}\n", sys.stdout)
    return 0


def _signal(parser: Parser, text: str) -> int:
    if text.isdecimal() and int(text) in signal.valid_signals():
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    found = getattr(signal, name, None)
    if not isinstance(found, signal.Signals):
        meant = near(name, [each.name for each in signal.Signals])
        parser.error(f"there is no signal {text!r}" + (f"; did you mean {meant}?" if meant else ""))
    return int(found)


def _seconds(parser: Parser, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        parser.error(f"--grace must be seconds, 0 or more, not {text!r}")
    return seconds


__all__ = ["main", "make_parser"]
