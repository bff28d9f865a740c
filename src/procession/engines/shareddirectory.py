"""Which machines share the run's directory, and so where the files of a job's ranks are."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMED = 5  # machines in a sentence


class SharedDirectory:
    """Which machines do not see the run's directory, but have a disk of their own at its path.

    Each node writes to the same path. Unless all machines share it (`--log-dir`), each has its own
    files there.

    place: the path of the directory, "" for none.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._apart: dict[str, None] = {}

    def take(self, hosts: Iterable[tuple[str, bool]]) -> bool:
        """Take note of machines, and whether each sees our directory; tells whether there is a new
        one that does not.
        """
        known = len(self._apart)
        if self._place:
            self._apart |= {host: None for host, shares in hosts if not shares}
        return len(self._apart) > known

    @property
    def apart(self) -> bool:
        """Whether some machine does not see our directory."""
        return bool(self._apart)

    def say(self) -> str:
        """Say where files are."""
        if not self._apart:
            return f"logs in {self._place}"
        hosts = [*self._apart]
        named = ", ".join(hosts[:MOST_NAMED])
        if len(hosts) > MOST_NAMED:
            named += f" and {len(hosts) - MOST_NAMED} others"
        whose = "their own disks" if len(hosts) > 1 else "its own disk"
        return (
            f"logs in {self._place}; those of {named} are on {whose}, at the same path: name a "
            "directory that all machines share (--log-dir) to have them in one place"
        )
