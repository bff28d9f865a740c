"""What a handle needs of the output of ranks. Types only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from procession.control.reachable import Shown


class Screen(Shown, Protocol):
    """Where output of ranks is shown.

    on_quiet: called once, in any thread, when nobody reads our standard output any more.
    """

    on_quiet: Callable[[], None] | None

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr."""
        ...
