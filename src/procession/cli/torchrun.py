"""`procession-torchrun`: for tools that call `torchrun` by its path, with torchrun's options."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from procession.cli import leave_after, surrounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of torchrun; returns the exit code. Raises SystemExit(2)."""
    words = list(sys.argv[1:] if argv is None else argv)

    def launch() -> int:
        from procession.cli import where

        return where.main(words, torchrun=True)

    return surrounded(launch, words)


def command() -> NoReturn:
    """Be the command `procession-torchrun`."""
    leave_after(main, launches=True)
