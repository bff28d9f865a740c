"""The command `procession`: one file per subcommand, imported when it is asked for."""

from __future__ import annotations

import os
import sys

from procession.forkserver.boot import end_early, start_early

# Of these comes no group in this process.
TELLING = {"-h", "--help", "--version", "--dry-run", "--dry_run", "--detach"}
TOLD = "PROCESSION_TOLD"  # in the environment of a detached launcher: a descriptor, see `detached`

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread
    from typing import NoReturn

DESCRIPTION = """\
Launch n copies of a program as one group of ranks: they start together, fail
together, say why, and leave nothing behind."""

COMMANDS = {
    "run": "run a program as a group of ranks",
    "ps": "list what runs here, and what ran",
    "logs": "show what the ranks of a run write",
    "attach": "come back to a run, and stay until it ends",
    "stop": "end a run",
    "report": "tell how a run is, or how it ended",
    "stacks": "show what each rank of a run is doing",
    "clean": "end and remove what launchers that were killed have left",
    "manifest": "print what a cluster has to be told to run a program (kubernetes)",
    "doctor": "tell what this machine offers, and what falls back",
    "completion": "print a script by which bash, zsh or fish completes this command",
}

EPILOG = f"""\
commands:
{chr(10).join(f"  {name:<10} {text}" for name, text in COMMANDS.items())}

examples:
  procession run -n 4 train.py --epochs 3     a Python script, four ranks
  procession run -n 4 -m mypackage.train      a Python module
  procession run -n 2 ./a.out input.dat       any program
  procession run --detach -n 4 train.py       the same, without this terminal
  procession attach last                      and back to it
  procession doctor                           what this machine offers
"""
STEERING = ("ps", "logs", "attach", "stop", "report", "stacks", "clean")
INTERRUPTED = 130  # 128 + SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Raises SystemExit(2) for a wrong one."""
    words = list(sys.argv[1:] if argv is None else argv)
    return surrounded(lambda: _command(words), words if words[:1] == ["run"] else None)


def surrounded(call: Callable[[], int], launch: Sequence[str] | None) -> int:
    """Call what a command does, with a forkserver that boots meanwhile if it will launch a group.

    launch: the words of a launch. Gives the exit code, also after Ctrl-C.
    """
    if launch is not None and (TOLD in os.environ or not TELLING.intersection(launch)):
        start_early()
    try:
        return call()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        end_early()


def command() -> NoReturn:
    """Be the command `procession`."""
    leave_after(main)


def leave_after(main: Callable[[], int]) -> NoReturn:
    """Call `main`, and leave with its code, without tidying up an interpreter that goes anyway."""
    try:
        code = main()
    except SystemExit as e:
        code = e.code
    import threading

    watched = sys.gettrace() or sys.getprofile() or sys.flags.inspect
    if not isinstance(code, int) or watched or any(map(_is_waited_for, threading.enumerate())):
        sys.exit(code)
    import atexit
    import os

    # Ours, and those of who watches this interpreter from outside.
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed, or not there
    os._exit(code)


def _is_waited_for(thread: Thread) -> bool:
    import threading

    return not thread.daemon and thread is not threading.main_thread()


def _command(words: list[str]) -> int:
    if words[:1] == ["run"]:
        from procession.cli import run

        return run.main(words[1:])
    from procession.cli.parser import Parser

    parser = Parser(
        "procession",
        hint="; the options of a run stand behind `procession run`",
        usage="procession [-h] [--version] COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    options, rest = parser.read(words)
    if options.version:
        from procession import __version__
        from procession.cli.say import say

        say(f"procession {__version__}\n", sys.stdout)
        return 0
    if not rest:
        parser.print_help()
        return 2
    if rest[0] == "run":
        return _command(rest)
    if rest[0] in (*STEERING, "manifest"):
        from importlib import import_module

        return import_module(f"procession.cli.{rest[0]}").main(rest[1:])
    if rest[0] == "doctor":
        return _doctor(rest[1:])
    if rest[0] == "completion":
        return _completion(rest[1:])
    return _unknown(rest[0])


def _unknown(command: str) -> NoReturn:
    from procession.cli.parser import near
    from procession.cli.say import refuse

    meant = near(command, COMMANDS, 0.6)
    hint = f"to run a program, write `procession run {command}`"
    if meant:
        hint = f"did you mean `procession {meant}`?"
    refuse("procession", f"there is no command {command!r}; {hint}")


def _completion(words: list[str]) -> int:
    from procession.cli import completion
    from procession.cli.parser import Parser
    from procession.cli.say import say

    shells = ", ".join(completion.SHELLS)
    parser = Parser(
        "procession completion",
        usage="procession completion SHELL",
        description=f"{COMMANDS['completion'].capitalize()}. SHELL is one of {shells}.\n"
        'For bash and zsh: eval "$(procession completion bash)"',
    )
    _, rest = parser.read(words)
    if len(rest) != 1 or rest[0] not in completion.SHELLS:
        parser.error(f"say for which shell: {shells}")
    say(completion.script(rest[0], COMMANDS, completion.parsers()), sys.stdout)
    return 0


def _doctor(words: list[str]) -> int:
    from procession.cli import doctor
    from procession.cli.parser import Parser

    parser = Parser("procession doctor", description=f"{COMMANDS['doctor'].capitalize()}.")
    doctor.add_arguments(parser)
    options, rest = parser.read(words)
    if rest:
        parser.error(f"it takes no words beside its options, such as {rest[0]!r}")
    return doctor.main(options)
