"""The ranks of a test, or of several tests, as a template holds them."""

from __future__ import annotations

import os
import select

from procession.pytest import processes
from procession.pytest.stackframes import without_runner
from procession.pytest.wire import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from procession.group.group import Group
    from procession.pytest.source import Source


def output_of(files: str, rank: int) -> list[tuple[str, str]]:
    """Read what a rank had written that its report does not have. files: see `renew.process`."""
    found: list[tuple[str, str]] = []
    for stream in ("out", "err"):
        try:
            with open(os.path.join(files, f"{rank}.{stream}"), "rb") as f:
                text = f.read().decode(errors="replace")
        except OSError:
            continue
        if text:
            found.append((f"Captured std{stream}", without_runner(text)))
    return found


class Ranks:
    """A group, and the lines to its ranks, which wait to be told what they are to run.

    source: what they come from. key: of the tests that they may run. lines: to the ranks that have
    knocked, by number.
    """

    def __init__(self, group: Group, source: Source, key: Hashable) -> None:
        self.group = group
        self.source = source
        self.key = key
        self.lines: dict[int, Line] = {}
        self._request: Any = None
        self.over, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # readable when the group is

        def wake_up() -> None:
            os.write(wake, b"!")  # a process that was forked since has this end, too
            os.close(wake)

        group.when_over(wake_up)

    def let_in(self) -> list[int]:
        """Take the lines of those who knock; gives their numbers."""
        found: list[int] = []
        while True:
            try:
                rank, sock = self.source.knocked()
            except BlockingIOError:
                return found
            self.lines[rank] = Line(sock)
            if self._request is not None:
                self.lines[rank].send_if_there(self._request)
            found.append(rank)

    def run(self, request: Any) -> None:
        """Have them run a test: those that are there, and the others when they come."""
        self._request = request
        for line in self.lines.values():
            line.send_if_there(request)

    def output_of(self, rank: int) -> list[tuple[str, str]]:
        """Read what a rank had written that its report does not have."""
        return output_of(self.source.files, rank)

    def are_well(self) -> bool:
        """Whether all of them live, and none is about to be ended."""
        pids = self.group.pids().values()
        dead = [pid for pid in pids if processes.state_of(pid) in ("", "Z", "X")]
        return not dead and self.group.state.name == "RUNNING" and not self.are_over()

    def are_over(self, patience: float = 0.0) -> bool:
        """Wait for the end of the group, `patience` seconds at most; says whether it came."""
        return bool(select.select([self.over], [], [], patience)[0])

    def close(self, patience: float = 0.0) -> None:
        """End the group. patience: seconds that ranks have to go by themselves."""
        for line in self.lines.values():
            if patience:
                line.send_if_there(None)  # others may have a copy of our end of the line
            line.close()
        self.lines.clear()
        if patience:
            self.are_over(patience)
        with self.group:
            pass
        os.close(self.over)
