"""The command `procession`: one file per subcommand, imported when it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

DESCRIPTION = """\
Launch n copies of a program as one group of ranks: they start together, fail
together, say why, and leave nothing behind."""

EPILOG = """\
examples:
  procession run -n 4 train.py --epochs 3     a Python script, four ranks
  procession run -n 4 -m mypackage.train      a Python module
  procession run -n 2 ./a.out input.dat       any program
  procession doctor                           what this machine offers
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Raises SystemExit(2) for a wrong one."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="procession",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    first = next((w for w in words if not w.startswith("-")), None)
    _add_run(commands, first)
    _add_doctor(commands, first)
    options = parser.parse_args(words)
    if options.version:
        from procession import __version__

        print(f"procession {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    return int(options.main(options))


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Shows options with dashes only; torchrun's forms with underscores work all the same."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        before = action.option_strings
        action.option_strings = [o for o in before if "_" not in o]
        try:
            return super()._format_action_invocation(action)
        finally:
            action.option_strings = before


def _add_run(commands: Any, first: str | None) -> None:
    parser = commands.add_parser(
        "run",
        help="run a program as a group of ranks",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    if first == "run":
        from procession.cli import run

        run.add_arguments(parser)
        parser.set_defaults(main=run.main)


def _add_doctor(commands: Any, first: str | None) -> None:
    parser = commands.add_parser(
        "doctor", help="tell what this machine offers, and what falls back"
    )
    if first == "doctor":
        from procession.cli import doctor

        doctor.add_arguments(parser)
        parser.set_defaults(main=doctor.main)
