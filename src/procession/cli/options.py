"""The options of `procession run`, and what they say."""

from __future__ import annotations

import argparse

from procession.cli.parser import Parser
from procession.cli.program import choose_program
from procession.errors import SpecError
from procession.policy import DEFAULT_STOP, Logs, Std, Stop
from procession.ranks import parse_ranks
from procession.spec import START_METHODS, Spec, make_spec
from procession.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

USAGE = "procession run [-n N] [options] [-m | --no-python] PROGRAM [ARGS ...]"

DESCRIPTION = """\
Run PROGRAM as a group of N ranks. The first failure ends the group at once, and
a report says which rank failed first, and why. Every rank finds its place in
RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as under torchrun."""

EPILOG = """\
PROGRAM is a Python script, or, if it is none, a program: a path, or a name on the PATH.
Options of procession stand before it; all that follows belongs to it.

STREAMS is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a value by rank: 0:3,2:1.
Without --log-dir, -r and -t make a directory in TMPDIR, which stays; the command says where.

exit codes: 0 if every rank succeeded, else that of the rank that failed first (128 + the number
of the signal that killed it); 130 after Ctrl-C, 143 after SIGTERM; 141 if the group was stopped
because nobody reads its output any more (as in: procession run ... | head), unless files keep it;
2 for a wrong command line.

examples:
  procession run -n 4 train.py --epochs 3
  procession run -n 4 --log-dir runs -t 3 train.py    files by rank, and the console
  procession run -n 8 --log-dir runs -r 3 -t 0:3 -m mypackage.train
"""

NPROC, LOG_DIR, PREFIX = "-n/--nproc-per-node", "--log-dir", "--prefix"
REDIRECTS, TEE, FILTER = "-r/--redirects", "-t/--tee", "--local-ranks-filter"


class Asked(Value):
    """What a command line asks for. dry: only to say what would be run."""

    spec: Spec
    dry: bool = False


def read_command_line(words: list[str]) -> Asked:
    """Say what to run by the words behind `procession run`.

    Raises SpecError for what cannot be done, and SystemExit for a wrong command line and --help.
    """
    parser = Parser(
        "procession run",
        hint="; see procession run --help",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    _declare(parser)
    options, rest = parser.read(words)
    nproc = _count(options.nproc)
    if not rest:
        raise SpecError("PROGRAM is missing: say what to run, as in: procession run -n 4 train.py")
    module, no_python = options.module, options.no_python
    spec = make_spec(
        choose_program(rest[0], rest[1:], module=module, no_python=no_python),
        nproc=nproc,
        start_method=options.start_method,
        stdin=_stdin(options.stdin, nproc),
        logs=_logs(options, nproc),
        stop=_stop(options.shutdown_timeout),
        preload=_preload(options.preload),
        learn=not options.no_learn,
    )
    if options.devices is not None:
        from procession.devices import deal

        spec = deal(spec, options.devices)
    return Asked(spec, dry=options.dry_run)


def _declare(parser: Parser) -> None:
    add = parser.add_argument
    add("-n", "--nproc-per-node", dest="nproc", metavar="N", default="1",
        help="how many ranks (default: 1)")  # fmt: skip
    add("--devices", metavar="KIND",
        help="give each rank one device of its own: cuda, rocm, intel, ascend, neuron, tpu, jax, "
        "or auto for what there is")  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-m", "--module", action="store_true", help="PROGRAM is a Python module")
    what.add_argument("--no-python", action="store_true",
                      help="PROGRAM is not Python, whatever it looks like")  # fmt: skip
    add = parser.add_argument_group("output").add_argument
    add("--log-dir", metavar="DIR",
        help="make a directory for this run in DIR, with the files of each rank")  # fmt: skip
    add("-r", "--redirects", metavar="STREAMS", default="0",
        help="streams that go to files, not to the console (default: 0)")  # fmt: skip
    add("-t", "--tee", metavar="STREAMS", default="0",
        help="streams that go to files and to the console (default: 0)")  # fmt: skip
    add("--local-ranks-filter", metavar="RANKS",
        help="show only these ranks on the console, for example 0,2,5-7")  # fmt: skip
    add("--prefix", metavar="TEMPLATE", default="auto",
        help="what stands before each line: {rank}, {local_rank}, {width}, {name} are filled in; "
        "'' for nothing: lines of different ranks may then mix (default: '[{rank}] ', or nothing "
        "with one rank)")  # fmt: skip
    add("--stdin", metavar="RANK", default="0",
        help="the rank that reads this command's standard input, or none; the other ranks read "
        "end-of-file (default: 0)")  # fmt: skip
    add = parser.add_argument_group("life").add_argument
    add("--start-method", metavar="METHOD", choices=START_METHODS[:2], default="forkserver",
        help="how Python ranks come to be: forkserver (fast, the default), or spawn (a new "
        "interpreter each)")  # fmt: skip
    add("--preload", metavar="MODULES", default="auto",
        help="what is imported once for all ranks: names with commas between them, none, or auto: "
        "what PROGRAM imports before it can tell the difference (default: auto)")  # fmt: skip
    add("--no-learn", action="store_true",
        help="do not keep what PROGRAM had imported at its end, for the next time")  # fmt: skip
    add("--dry-run", action="store_true",
        help="say what would be run and preloaded, and run nothing")  # fmt: skip
    add("--shutdown-timeout", metavar="SECONDS",
        help=f"from the stop signal to SIGKILL (default: {DEFAULT_STOP.grace:g})")  # fmt: skip


def _count(text: str) -> int:
    if not _is_number(text) or int(text) < 1:
        raise SpecError(f"{NPROC} must be a count of 1 or more, not {text!r}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6


def _stdin(text: str, nproc: int) -> int | None:
    if text == "none":
        return None
    if not _is_number(text) or int(text) >= nproc:
        raise SpecError(f"--stdin must be a rank from 0 to {nproc - 1}, or none, not {text!r}")
    return int(text)


def _preload(text: str) -> Literal["auto"] | list[str] | None:
    if text == "auto":
        return "auto"
    return None if text == "none" else text.split(",")


def _logs(options: argparse.Namespace, nproc: int) -> Logs:
    """Read what is said of the output; each fault names its option."""
    if options.log_dir == "":
        raise SpecError(f"{LOG_DIR} must name a directory, not ''")
    ranks = None
    option, word = REDIRECTS, "redirect"
    try:
        redirect = Std.from_str(options.redirects)
        Logs(redirect=redirect).check(nproc)
        option, word = TEE, "tee"
        tee = Std.from_str(options.tee)
        Logs(tee=tee).check(nproc)
        option, word = FILTER, "ranks"
        if options.local_ranks_filter is not None:
            ranks = parse_ranks(options.local_ranks_filter)
            Logs(ranks=ranks).check(nproc)
        option, word = PREFIX, "prefix"
        Logs(prefix=options.prefix).check(nproc)
        option, word = LOG_DIR, "log directory"
        Logs(dir=options.log_dir).check(nproc)
    except ValueError as e:
        raise SpecError(f"{option}: {str(e).removeprefix(f'{word}: ')}") from None
    return Logs(options.log_dir, redirect, tee, options.prefix, ranks)


def _stop(text: Any) -> Stop:
    if text is None:
        return DEFAULT_STOP
    try:
        stop = Stop(grace=float(text))
        stop.check()
    except ValueError:
        raise SpecError(f"--shutdown-timeout must be seconds, 0 or more, not {text!r}") from None
    return stop


__all__ = ["Asked", "read_command_line"]
