"""Which machines share the run's directory, and so where the files of a job's ranks are."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMED = 5  # machines in a sentence


class SharedDirectory:
    """Which machines do not see the run's directory, but have a disk of their own at its path.

    Each node writes to the same path. Unless all machines share it (`--log-dir`), each has its own
    files there.

    path: of the directory, "" for none. always: whether people are told where files are also when
    all machines share the directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.always = False
        self._apart: dict[str, None] = {}

    def take(self, hosts: Iterable[tuple[str, bool]], *, first: bool) -> str:
        """Take note of the machines of an attempt; gives where files are if that is to be said now.

        hosts: each with whether it sees our directory. first: this is the first attempt.
        """
        known = len(self._apart)
        if self._path:
            self._apart |= {host: None for host, shares in hosts if not shares}
        more = len(self._apart) > known
        return self.say() if more or (first and self.always and self._path) else ""

    @property
    def apart(self) -> bool:
        """Whether some machine does not see our directory."""
        return bool(self._apart)

    def say(self) -> str:
        """Say where files are."""
        if not self._apart:
            return f"logs in {self._path}"
        hosts = [*self._apart]
        named = ", ".join(hosts[:MOST_NAMED])
        if len(hosts) > MOST_NAMED:
            named += f" and {len(hosts) - MOST_NAMED} others"
        whose = "their own disks" if len(hosts) > 1 else "its own disk"
        return (
            f"logs in {self._path}; those of {named} are on {whose}, at the same path: name a "
            "directory that all machines share (--log-dir) to have them in one place [P418]"
        )
