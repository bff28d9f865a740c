"""Writes the messages of the command itself."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


LOST = 74  # the exit code where all is well, except that output could not be written (EX_IOERR)
fault = ""  # why a message of this command is lost, "" if none is


def say(text: str, stream: Any, timeout: float | None = None) -> None:
    """Write text to `sys.stdout` or `sys.stderr`, as long as there is a reader. Raises no OSError.

    Escape sequences in the text are made harmless.
    timeout: seconds after which what was not read is dropped; None waits while there is a reader.
    If text is lost for another reason, such as a full disk, `fault` says why.
    """
    from procession.output.console import Console
    from procession.output.text import harmless_text

    global fault
    console = Console(stream)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        console.write(harmless_text(text).encode(encoding, "backslashreplace"), timeout=timeout)
        fault = fault or console.fault
    finally:
        console.close()


def say_out(text: str) -> None:
    """Write a text to the standard output, with a newline at its end."""
    say(text.rstrip("\n") + "\n", sys.stdout)


def say_line(text: str, patience: float | None = None) -> None:
    """Write a line to the standard error. patience: see `say`."""
    say(text.rstrip("\n") + "\n", sys.stderr, patience)


def say_note(text: str, patience: float | None = None) -> None:
    """Write a line that begins with our name. patience: see `say`."""
    say_line(f"procession: {text}", patience)


def refuse(command: str, text: str) -> NoReturn:
    """Say in one line what is wrong with the command line, and exit with code 2."""
    from procession.output.text import shown

    line = shown(" ".join(text.splitlines()))
    say(f"{command}: error: {line}\n", sys.stderr)
    raise SystemExit(2)
