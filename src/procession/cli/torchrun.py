"""`procession-torchrun`: for tools that call `torchrun` by its path, with torchrun's options."""

from __future__ import annotations

from collections.abc import Sequence

from procession import cli

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of torchrun; returns the exit code. Raises SystemExit(2)."""
    return cli.main(argv, torchrun=True)


def command() -> NoReturn:
    """Be the command `procession-torchrun`."""
    cli.leave_after(main, launches=True)
