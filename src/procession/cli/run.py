"""`procession run`: a command line becomes a group, and its end an exit code."""

from __future__ import annotations

import argparse
import importlib.machinery
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NoReturn

from procession.errors import GroupFailed, SpecError
from procession.group import Group
from procession.lifecycle import Phase
from procession.policy import DEFAULT_STOP, Logs, Std, Stop
from procession.ranks import parse_ranks
from procession.spec import (
    START_METHODS,
    Command,
    Module,
    Program,
    Script,
    make_spec,
    program_problem,
)

DESCRIPTION = """\
Run PROGRAM as a group of N ranks. The first failure ends the group at once, and
a report says which rank failed first, and why. Every rank finds its place in
RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as under torchrun."""

EPILOG = """\
PROGRAM is a Python script, or, if it is none, a program: a path, or a name on the PATH.
Options of procession stand before it; all that follows belongs to it.

STREAMS is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a value by rank: 0:3,2:1.

exit codes: 0 if every rank succeeded, else that of the rank that failed first (128 + the number
of the signal that killed it); 130 after Ctrl-C, 143 after SIGTERM; 2 for a wrong command line.

examples:
  procession run -n 4 train.py --epochs 3
  procession run -n 4 --log-dir runs -t 3 train.py    files by rank, and the console
  procession run -n 8 --log-dir runs -r 3 -t 0:3 -m mypackage.train
"""

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
SCRIPT_ENDINGS = (".py", ".pyw", ".pyc", ".pyz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `procession run`."""
    parser.usage = "procession run [-n N] [options] [-m | --no-python] PROGRAM [ARGS ...]"
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("-n", "--nproc-per-node", "--nproc_per_node", dest="nproc", metavar="N", default="1",
        help="how many ranks (default: 1)")  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-m", "--module", action="store_true", help="PROGRAM is a Python module")
    what.add_argument("--no-python", "--no_python", action="store_true",
                      help="PROGRAM is not Python, whatever it looks like")  # fmt: skip
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--log-dir", "--log_dir", metavar="DIR",
        help="make a directory for this run in DIR, with the files of each rank")  # fmt: skip
    add("-r", "--redirects", metavar="STREAMS", default="0",
        help="streams that go to files, not to the console (default: 0)")  # fmt: skip
    add("-t", "--tee", metavar="STREAMS", default="0",
        help="streams that go to files and to the console (default: 0)")  # fmt: skip
    add("--local-ranks-filter", "--local_ranks_filter", metavar="RANKS",
        help="show only these ranks on the console, for example 0,2,5-7")  # fmt: skip
    add("--prefix", metavar="TEMPLATE", default="auto",
        help="what stands before each line: {rank}, {local_rank}, {width}, {name} are filled in; "
        "'' for nothing (default: '[{rank}] ', or nothing with one rank)")  # fmt: skip
    add("--stdin", metavar="RANK", default="0",
        help="the rank that reads this command's standard input, or none (default: 0)")  # fmt: skip
    life = parser.add_argument_group("life")
    add = life.add_argument
    add("--start-method", "--start_method", choices=START_METHODS[:2], default="forkserver",
        help="how Python ranks come to be: forkserver (fast, the default), or spawn (a new "
        "interpreter each)")  # fmt: skip
    add("--shutdown-timeout", "--shutdown_timeout", metavar="SECONDS", default=None,
        help=f"from the stop signal to SIGKILL (default: {DEFAULT_STOP.grace:g})")  # fmt: skip
    parser.add_argument("program", metavar="PROGRAM", help=argparse.SUPPRESS)
    parser.add_argument("args", metavar="ARGS", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def main(options: argparse.Namespace) -> int:
    """Run the group that the options describe; returns the exit code."""
    try:
        nproc = _count(options.nproc)
        program = choose_program(
            options.program, options.args, module=options.module, no_python=options.no_python
        )
        spec = make_spec(
            program,
            nproc=nproc,
            start_method=options.start_method,
            stdin=_stdin(options.stdin, nproc),
            logs=Logs(
                dir=options.log_dir,
                redirect=_streams("-r/--redirects", options.redirects),
                tee=_streams("-t/--tee", options.tee),
                prefix=options.prefix,
                ranks=_filter(options.local_ranks_filter),
            ),
            stop=_stop(options.shutdown_timeout),
        )
        group = Group(spec)
    except SpecError as e:
        _refuse(str(e))
    except GroupFailed as e:
        _say(str(e))
        return e.exit_code
    except OSError as e:
        _refuse(f"cannot prepare the run: {e}")
    if group.run_dir:
        _say(f"procession: logs in {group.run_dir}")
    with stopped_by_signals(group) as received:
        group.drive()
    return _exit_code(group, received)


def _exit_code(group: Group, received: list[int]) -> int:
    try:
        result = group.result()
    except GroupFailed as e:
        _say(str(e))
        return e.exit_code
    if result.state is Phase.STOPPED and received:
        _say(f"procession: {group.spec.name} was stopped by {signal.Signals(received[0]).name}")
        return 128 + received[0]
    return 0


@contextmanager
def stopped_by_signals(group: Group) -> Generator[list[int]]:
    """Let the first signal stop the group and a further one kill it; handlers are put back.

    Gives the list of signals that came. A signal that was ignored (nohup) stays ignored.
    """
    received: list[int] = []

    def take(number: int, _: object) -> None:
        received.append(number)
        if len(received) == 1:
            group.stop(signal=number, wait=False)
        else:
            group.kill(wait=False)

    before: dict[int, Callable[..., object] | int | None] = {}
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, take)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def choose_program(word: str, args: list[str], *, module: bool, no_python: bool) -> Program:
    """Decide what PROGRAM is. Raises SpecError where it is nothing that can be run.

    A path that exists is a script if it ends in .py, or is not executable, or is a directory or an
    archive with a `__main__.py`; everything else is a program.
    """
    if module:
        top = word.partition(".")[0]
        known = top in sys.builtin_module_names or importlib.machinery.PathFinder.find_spec(
            top, [os.getcwd(), *sys.path]
        )
        if not known and top not in sys.modules:
            raise SpecError(f"there is no module {word!r} on the path; is it installed?")
        return Module(word, tuple(args))
    if no_python:
        return Command((word, *args))
    if os.path.isdir(word):
        if not os.path.exists(os.path.join(word, "__main__.py")):
            raise SpecError(f"{word!r} is a directory without a __main__.py")
        return Script(word, tuple(args))
    if os.path.exists(word) and (word.endswith(SCRIPT_ENDINGS) or not os.access(word, os.X_OK)):
        return Script(word, tuple(args))
    if word.endswith(SCRIPT_ENDINGS):
        raise SpecError(f"there is no script {word!r}")
    if program_problem(word):
        there = f"there is no script or program {word!r}" if "/" not in word else None
        raise SpecError(there or program_problem(word))
    return Command((word, *args))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise SpecError(f"-n/--nproc-per-node must be a count of 1 or more, not {text!r}")
    return int(text)


def _stdin(text: str, nproc: int) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) >= nproc:
        raise SpecError(f"--stdin must be a rank from 0 to {nproc - 1}, or none, not {text!r}")
    return int(text)


def _streams(option: str, text: str) -> Std | dict[int, Std]:
    try:
        return Std.from_str(text)
    except ValueError as e:
        raise SpecError(f"{option}: {e}") from None


def _filter(text: str | None) -> frozenset[int] | None:
    try:
        return None if text is None else parse_ranks(text)
    except ValueError as e:
        raise SpecError(f"--local-ranks-filter: {e}") from None


def _stop(text: str | None) -> Stop:
    if text is None:
        return DEFAULT_STOP
    try:
        return Stop(grace=float(text))
    except ValueError:
        raise SpecError(f"--shutdown-timeout must be seconds, not {text!r}") from None


def _say(text: str) -> None:
    try:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads


def _refuse(text: str) -> NoReturn:
    _say(f"procession run: error: {text}")
    raise SystemExit(2)
