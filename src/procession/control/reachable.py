"""What control needs of a run beside its driver. Types only."""

from __future__ import annotations

from typing import Any, Protocol


class Reachable(Protocol):
    """A run that can be seen and steered from elsewhere; all may be called from any thread."""

    def look(self) -> dict[str, Any]:
        """Describe it as it is now; see `looking.look_at` for the keys."""
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
