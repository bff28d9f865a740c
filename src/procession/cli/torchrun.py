"""`procession-torchrun`: for tools that call `torchrun` by its path, with torchrun's words."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of torchrun; returns the exit code. Raises SystemExit(2)."""
    from procession.cli import INTERRUPTED, run

    try:
        return run.main(list(sys.argv[1:] if argv is None else argv), torchrun=True)
    except KeyboardInterrupt:
        return INTERRUPTED


__all__ = ["main"]
