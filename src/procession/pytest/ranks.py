"""The ranks of a test, or of several tests, as a template holds them."""

from __future__ import annotations

import array
import os
import select
import socket

from procession.pytest import processes
from procession.pytest.stackframes import without_runner
from procession.pytest.wire import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from procession.forkserver.client import ForkServer
    from procession.group.group import Group


class Ranks:
    """A group, and the lines to its ranks.

    group: it. server: the parent of the ranks, None where they are fresh interpreters. door: where
    they knock. files: the directory of what they have written. key: of the tests that they may
    run, None if only one. lines: to the ranks, by number.
    """

    def __init__(
        self,
        group: Group,
        server: ForkServer | None,
        door: socket.socket,
        files: str,
        key: Hashable = None,
    ) -> None:
        self.group = group
        self.server = server
        self.files = files
        self.key = key
        self.lines: dict[int, Line] = {}
        self.door = door
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
                rank, fds = knocked(self.door)
            except BlockingIOError:
                return found
            self.lines[rank] = Line(socket.socket(fileno=fds[0]))
            found.append(rank)

    def reply(self, rank: int, answer: Any, fds: tuple[int, ...] = ()) -> None:
        """Answer a rank, or have it run another test."""
        line = self.lines.get(rank)
        if line is not None:
            try:
                line.send(answer, fds)
            except OSError:
                pass  # it has ended, which is heard of elsewhere

    def output_of(self, rank: int) -> list[tuple[str, str]]:
        """Read what a rank had written that its report does not have."""
        found: list[tuple[str, str]] = []
        for stream in ("out", "err"):
            try:
                with open(os.path.join(self.files, f"{rank}.{stream}"), "rb") as f:
                    text = f.read().decode(errors="replace")
            except OSError:
                continue
            if text:
                found.append((f"Captured std{stream}", without_runner(text)))
        return found

    def are_well(self) -> bool:
        """Whether all of them live, and none is about to be ended."""
        pids = self.group.pids().values()
        dead = [pid for pid in pids if processes.state_of(pid) in ("", "Z", "X")]
        return not dead and self.group.failure is None and not self.are_over()

    def are_over(self, patience: float = 0.0) -> bool:
        """Wait for the end of the group, `patience` seconds at most; says whether it came."""
        return bool(select.select([self.over], [], [], patience)[0])

    def close(self, patience: float = 0.0) -> None:
        """End the group. patience: seconds that ranks have to go by themselves."""
        for rank, line in list(self.lines.items()):
            if patience:
                self.reply(rank, None)  # others may have a copy of our end of the line
            line.close()
        self.lines.clear()
        if patience:
            self.are_over(patience)
        with self.group:
            pass
        os.close(self.over)


def knocked(door: socket.socket) -> tuple[Any, list[int]]:
    """Take the greeting of a rank, and its line. Raises BlockingIOError if there is none."""
    fds = array.array("i")
    message, rights, _, _ = door.recvmsg(64, socket.CMSG_SPACE(fds.itemsize))
    for _, _, body in rights:
        fds.frombytes(body)
    return int(message), list(fds)
