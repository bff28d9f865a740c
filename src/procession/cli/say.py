"""What the command itself has to say."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def say(text: str, stream: Any, timeout: float | None = None) -> None:
    """Write text to `sys.stdout` or `sys.stderr`, as far as anybody reads it. Raises no OSError.

    timeout: seconds after which what was not taken is dropped; None waits while there is a reader.
    """
    from procession.output.console import Console

    console = Console(stream)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        console.write(text.encode(encoding, "backslashreplace"), timeout=timeout)
    finally:
        console.close()


def refuse(command: str, text: str) -> NoReturn:
    """Tell in one line what is wrong with the command line, and leave with code 2."""
    import sys

    say(f"{command}: error: {' '.join(text.splitlines())}\n", sys.stderr)
    raise SystemExit(2)


__all__ = ["refuse", "say"]
