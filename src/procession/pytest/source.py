"""What the ranks of tests come from: an agent of this process, and a door where they knock."""

from __future__ import annotations

import array
import os
import shutil
import socket
from functools import partial
from multiprocessing.connection import Connection

from procession.prepare.jobs import lasting_server
from procession.pytest import inrank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from procession.agent.client import Agent


class Source:
    """Where the ranks of one group at a time come from.

    files: the directory of what they write; it is made. session: pytest's, for ranks that are forks
    of this process as it is now; None: they are fresh interpreters, and `server` is None. private:
    descriptors of this process that are not for ranks. Raises OSError.
    """

    def __init__(self, files: str, session: Any = None, private: Sequence[int] = ()) -> None:
        self.files = files
        os.makedirs(files, exist_ok=True)
        self._door, self._knock = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._door.setblocking(False)
        self.server: Agent | None = None
        closed = [(fd, os.fstat(fd).st_ino) for fd in (*private, *self.descriptors)]
        self.run = partial(inrank.run, session, self._knock.fileno(), files, closed)
        if session is not None:
            try:
                self.server = lasting_server(self.run)
            except BaseException:
                self.close()
                raise

    def fileno(self) -> int:
        """Give the descriptor that is readable when a rank has knocked."""
        return self._door.fileno()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Its own descriptors, which ranks close that have inherited them."""
        of_server = () if self.is_lost or self.server is None else (self.server.fileno(),)
        return (self._door.fileno(), self._knock.fileno(), *of_server)

    @property
    def is_lost(self) -> bool:
        """Whether no rank can come from it any more."""
        return self.server is not None and self.server.lost

    def knock(self) -> Connection:
        """Give a copy of the other side of the door, for ranks that inherit nothing."""
        return Connection(os.dup(self._knock.fileno()), readable=False)

    def knocked(self) -> tuple[int, socket.socket]:
        """Take the number of a rank that has knocked, and its line. Raises BlockingIOError."""
        fds = array.array("i")
        message, rights, _, _ = self._door.recvmsg(64, socket.CMSG_SPACE(fds.itemsize))
        for _, _, body in rights:
            fds.frombytes(body)
        return int(message), socket.socket(fileno=fds[0])

    def clear(self) -> None:
        """Remove the files of ranks that have ended, and hear nobody who comes too late."""
        for name in os.listdir(self.files):
            os.unlink(os.path.join(self.files, name))
        while True:
            try:
                self.knocked()[1].close()
            except BlockingIOError:
                return

    def close(self) -> None:
        """End the agent, and remove the files."""
        if self.server is not None:
            self.server.close()
        self._door.close()
        self._knock.close()
        shutil.rmtree(self.files, ignore_errors=True)
