"""`procession-torchrun`: for tools that call `torchrun` by its path, with torchrun's words."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from procession.cli import INTERRUPTED, TELLING, leave_after
from procession.forkserver.boot import end_early, start_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of torchrun; returns the exit code. Raises SystemExit(2)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not TELLING.intersection(words):
        start_early()
    try:
        from procession.cli import run

        return run.main(words, torchrun=True)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        end_early()


def command() -> NoReturn:
    """Be the command `procession-torchrun`."""
    leave_after(main)


__all__ = ["command", "main"]
