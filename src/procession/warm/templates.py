"""The templates of this user: found by the names of their sockets, asked, and ended.

A template (`agent.template`) has a socket in the user's runtime directory (`system.directories`),
which must be the user's alone. Its name tells how the process was started, how many modules it has
imported, and its pid. A socket at which nobody listens was left by one that was killed.
"""

from __future__ import annotations

import _socket as socket
import os
import select
import time
from typing import Any

from procession.agent.client import Agent
from procession.system.directories import Refused, inside, open_runtime
from procession.system.files import field
from procession.system.identity import peer_of
from procession.system.processes import describe
from procession.values.base import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.agent.protocol import Message

NAME = ".warm"  # no run has a name with a dot in front
SECONDS = 2.0  # for each answer


class Gone(Exception):
    """It has ended, or works for another launcher."""


class Unusable(Exception):
    """It cannot be asked, or does not answer as it should. The text is one line."""


class ListedTemplate(Value):
    """A template, by its socket. name: of that. key: how it was started, see `launching.key_text`.

    modules: how many it has imported. since: when it began to wait, in seconds since 1970.
    """

    name: str
    key: str
    modules: int
    pid: int
    since: float

    def connect(self) -> Agent:
        """Connect to it, and let it go on if it is stopped. Raises Gone and Unusable."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            directory = open_runtime(make=False)
            try:
                sock.settimeout(SECONDS)
                sock.connect(inside(directory, self.name))
            except ConnectionRefusedError:
                os.unlink(inside(directory, self.name))
                raise
            finally:
                os.close(directory)
            if peer_of(sock) != (self.pid, os.geteuid()):
                raise Unusable(f"the socket of {self.pid} belongs to another process")
            agent = Agent.taken(self.pid, sock)
        except BaseException as e:
            sock.close()
            if isinstance(e, (FileNotFoundError, ConnectionError, ProcessLookupError)):
                raise Gone from None
            if isinstance(e, (OSError, Refused)):
                raise Unusable(f"{self.pid} cannot be reached: {e}") from None
            raise
        agent.wake()
        return agent

    def describe(self) -> dict[str, Any]:
        """Give what it has imported, for how long it waits, and more. Raises Gone and Unusable.

        memory: in bytes, its own, and its part of what it shares (PSS).
        """
        agent = self.connect()
        try:
            (said,) = ask(agent, ("look",), "template")
        finally:
            agent.let_go()
        memory = field(f"/proc/{self.pid}/smaps_rollup", "Pss") or 0
        return {"pid": self.pid, **said, "memory": memory}

    def end(self) -> bool:
        """End it, whatever it does; False if it has ended. Raises Unusable."""
        try:
            agent = self.connect()
        except Gone:
            return False
        agent.kill()  # there is nothing below it
        agent.let_go()
        try:
            directory = open_runtime(make=False)
            os.unlink(inside(directory, self.name))
            os.close(directory)
        except OSError:
            pass
        return True


def templates() -> list[ListedTemplate]:
    """Give those of this user, the one that waits for longest first. Raises OSError and Refused."""
    try:
        directory = open_runtime(make=False)
    except FileNotFoundError:
        return []
    found: list[ListedTemplate] = []
    try:
        for name in os.listdir(directory):
            first, *words = name.split("-")
            if first == NAME and len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
                try:
                    since = os.stat(name, dir_fd=directory).st_mtime
                except FileNotFoundError:
                    continue
                found.append(ListedTemplate(name, words[0], int(words[1]), int(words[2]), since))
    finally:
        os.close(directory)
    return sorted(found, key=lambda each: each.since)


def ask(agent: Agent, message: Message, answer: str, fds: list[int] | None = None) -> Message:
    """Ask an agent that does nothing else; gives what follows the first word of its answer.

    fds: descriptors that go with the question, and are closed. Raises Gone and Unusable.
    """
    agent.send(message, fds or [], fds or [])
    until = time.monotonic() + SECONDS
    poll = select.poll()
    while not agent.lost:
        left = until - time.monotonic()
        poll.register(agent.fileno(), select.POLLIN | select.POLLOUT * agent.waiting)
        if left <= 0 or not poll.poll(left * 1000):
            raise Unusable(f"{agent.pid} does not answer: it {describe(agent.pid)}")
        agent.flush()
        for messages, _ in agent.receive():
            for kind, *rest in messages:
                if kind == answer:
                    return tuple(rest)
    if agent.crash:
        raise Unusable(f"{agent.pid} failed: {agent.crash}")
    raise Gone
