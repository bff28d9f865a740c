"""What control needs of a run, be it a group on this machine or a job over several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from procession.output.recent import Recent
from procession.rules.tables import Phase


class Reachable(Protocol):
    """A run that can be seen and steered from elsewhere; all may be called from any thread.

    distant: whether its ranks must be asked how they are, which takes time.
    """

    distant: bool

    @property
    def state(self) -> Phase:
        """Where the run is in its life."""
        ...

    @property
    def stop_signal(self) -> int:
        """The signal by which its ranks are asked to end."""
        ...

    def look(self) -> dict[str, Any]:
        """Describe it as it is now; see `looking.look_at` for the keys."""
        ...

    def stacks(self, timeout: float, *, native: bool) -> list[dict[str, Any]]:
        """Say where its ranks are; see `Group.stacks`."""
        ...

    def stop(self, signal: int | None, grace: float | None, wait: bool) -> None:
        """End it: stop signal, grace, SIGKILL."""
        ...

    def kill(self, wait: bool) -> None:
        """End it by SIGKILL."""
        ...

    def send_signal(self, rank: int, signal: int) -> None:
        """Send a signal to one rank. Raises SpecError for one that does not exist."""
        ...


class Watcher(Protocol):
    """The loop in which a run lives; its methods are for the loop's own thread."""

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Have `call` called when `fd` can be read."""
        ...

    def unwatch(self, fd: int) -> None:
        """Forget `fd`."""
        ...


class Shown(Protocol):
    """What a run shows on its console.

    prefixes: what stands before the lines of each rank. recent: the output that was shown last,
    None where ranks write past this process.
    """

    @property
    def prefixes(self) -> Sequence[str]:
        """What stands before the lines of each rank."""
        ...

    @property
    def recent(self) -> Recent | None:
        """What was shown last."""
        ...

    def tap(self) -> None:
        """Keep what is shown last in `recent`, from now on."""
        ...
