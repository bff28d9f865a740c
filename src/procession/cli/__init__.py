"""The command `procession`: its subcommands, each imported only when it is called.

From words to a run: `words` reads the command line by the table in `options`; `settings` adds what
variables and TOML files say; `request` makes of it what is to be run; `where` has it run: here or
on an engine (`run`), as one of several launchers (`together`), or without this terminal
(`detach`). Commands that look at runs or steer them are in `steer`.

May import every other room but the drop-ins. Start reading at `main` below, then at `where`.
"""

from __future__ import annotations

import gc
import os
import sys

from procession.agent.boot import end_early, start_early
from procession.cli import process

# With one of these words, this process launches no group.
TELLING = {"-h", "--help", "--help-all", "--version", "--dry-run", "--dry_run", "--detach"}

WARM = "PROCESSION_WARM"
PMI_FD = "PMI_FD"  # see `request`

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

DESCRIPTION = """\
Launch n copies of a program as one group of ranks: they start together, fail
together, say why, and leave nothing behind."""

INTERRUPTED = 130  # 128 + SIGINT


def main(argv: Sequence[str] | None = None, *, torchrun: bool = False) -> int:
    """Run the command line; returns the exit code, also after Ctrl-C.

    For a launch, an agent starts meanwhile. One that may get an agent that was kept looks for that
    first. torchrun: it is that of torchrun.
    Raises SystemExit(2) for a wrong one.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    launch = words if torchrun or words[:1] == ["run"] else None
    later = WARM in os.environ or PMI_FD in os.environ
    try:
        if (
            launch is not None
            and not later
            and not any(w.startswith("--warm") for w in launch)
            and not TELLING.intersection(launch)
        ):
            start_early()
        return _with_loss(_command(words, torchrun=torchrun))
    except SystemExit as e:
        if e.code:
            raise
        return _with_loss(0)  # of --help
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        end_early()


def _with_loss(code: int) -> int:
    """Give the exit code of a command; if some of what it printed was lost, say so, and give 74."""
    saying: Any = sys.modules.get("procession.cli.say")
    if saying is None or not saying.fault:
        return code
    why, saying.fault = saying.fault, ""
    saying.say_note(f"printed output is lost ({why}) [P307]")
    return code or saying.LOST


def command() -> NoReturn:
    """Be the command `procession`."""
    leave_after(main, launches=sys.argv[1:2] == ["run"])


def leave_after(main: Callable[[], int], *, launches: bool) -> NoReturn:
    """Call `main`, and exit with its code, without the cleanup of the interpreter.

    launches: whether it launches a group. What is made until then stays to the end, so the garbage
    collector would look through it in vain, some milliseconds long: `where` turns it on again.
    """
    process.leaves_surely = True
    if launches:
        gc.disable()
    try:
        code = main()
    except SystemExit as e:
        code = e.code
    import threading

    waits = any(not t.daemon for t in threading.enumerate() if t is not threading.main_thread())
    if not isinstance(code, int) or waits or sys.flags.inspect:
        sys.exit(code)
    import atexit

    # Exit handlers: ours, and those of tools that watch this interpreter, such as coverage.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed, or not there
    os._exit(code)


def _command(words: list[str], *, torchrun: bool = False) -> int:
    if torchrun or words[:1] == ["run"]:
        from procession.cli import where

        return where.main(words if torchrun else words[1:], torchrun=torchrun)
    from procession.cli.commands import COMMANDS, EPILOG, STEERING
    from procession.cli.words import Option, Parser, near

    parser = Parser(
        "procession",
        {"": [Option(("--version",), "", "print the version and exit")]},
        hint="; the options of a run stand behind `procession run`",
        usage="procession [-h] [--version] COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    options, rest = parser.read(words)
    if options.get("version"):
        from procession.cli.say import say_out
        from procession.values.version import __version__

        say_out(f"procession {__version__}")
        return 0
    if not rest:
        parser.print_help()
        return 2
    if rest[0] == "run":
        return _command(rest)
    if rest[0] not in COMMANDS:
        meant = near(rest[0], COMMANDS, 0.6)
        hint = f"to run a program, write `procession run {rest[0]}`; see `procession --help`"
        hint = f"did you mean `procession {meant}`?" if meant else hint
        parser.error(f"there is no command {rest[0]!r}; {hint}")
    if rest[0] in STEERING:
        from procession.cli.steer.finding import steer

        return steer(rest[0], rest[1:])
    from importlib import import_module

    return import_module(f"procession.cli.{rest[0]}").main(rest[1:])
