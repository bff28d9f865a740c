"""What a handle needs: the loop that owns its run, and the output of its ranks. Types only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from procession.control.reachable import Shown
from procession.driver.journal import Journal
from procession.system.threads import Latch
from procession.values.errors import GroupEnd
from procession.values.events import Event
from procession.values.policy import StopRequest


class Runner(Protocol):
    """The loop that owns a run: a supervisor, or the driver of a job.

    started: set when the run has left its first phase, or has ended. end: how the run ended,
    None while it has not.
    """

    journal: Journal
    end: GroupEnd | None
    started: Latch

    @property
    def start_failed(self) -> bool:
        """Whether the run does not work because a rank could not be started."""
        ...

    @property
    def stop_signal(self) -> int:
        """The signal by which ranks are, or were, asked to end."""
        ...

    @property
    def losses(self) -> list[str]:
        """Which output and records were lost, one line each."""
        ...

    def run(self) -> None:
        """Run to the end, in this thread."""
        ...

    def request_stop(self, request: StopRequest) -> None:
        """Ask for the end; returns at once. From any thread."""
        ...

    def request_signal(self, rank: int | None, number: int, only_caught: bool = False) -> None:
        """Ask for a signal to one rank, None for all; from any thread."""
        ...

    def drain_patiently(self) -> None:
        """Have all output shown at the end, however slowly it is read."""
        ...

    def subscribe(self, call: Callable[[Event], object]) -> None:
        """Have `call` called with each event, the past ones first; from any thread."""
        ...

    def watch(self, fd: int, call: Callable[[], object]) -> None:
        """Have `call` called when `fd` can be read; in the loop's thread, as `unwatch`."""
        ...

    def unwatch(self, fd: int) -> None:
        """Forget `fd`."""
        ...


class Screen(Shown, Protocol):
    """Where output of ranks is shown.

    on_quiet: called once, in any thread, when nobody reads our standard output any more.
    """

    on_quiet: Callable[[], None] | None

    def say(self, line: bytes) -> None:
        """Show a line of our own, with its newline, on stderr."""
        ...
