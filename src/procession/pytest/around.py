"""What the conversation of a template with its ranks takes place in."""

from __future__ import annotations

import array
import os
import socket

from procession.pytest.stackframes import without_runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.forkserver.client import ForkServer
    from procession.pytest.wire import Line


class Around:
    """What a conversation takes place in.

    line: to pytest's process. door: where ranks knock. server: the parent of the ranks, None where
    they are fresh interpreters. files: the directory of what ranks have written. terminal: what the
    rank is given that failed first, () if none is.
    """

    def __init__(
        self,
        line: Line,
        door: socket.socket,
        server: ForkServer | None,
        files: str,
        terminal: tuple[int, ...] = (),
    ) -> None:
        self.line = line
        self.door = door
        self.server = server
        self.files = files
        self.terminal = terminal

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


def knocked(door: socket.socket) -> tuple[Any, list[int]]:
    """Take the greeting of a rank, and its line. Raises BlockingIOError if there is none."""
    fds = array.array("i")
    message, rights, _, _ = door.recvmsg(64, socket.CMSG_SPACE(fds.itemsize))
    for _, _, body in rights:
        fds.frombytes(body)
    return int(message), list(fds)
