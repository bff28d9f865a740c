"""The agents of a job: who is there, and who has been heard of.

Theory of operation. Whoever connects is a stranger until a first message has proved that it has the
key; that must be a greeting, and come within `GREETING`. If there are too many of them, the one
that is silent for longest goes: whoever holds connections open keeps no agent out. Heartbeats go
once in a fifth of the lease, and each answer also compares the clocks. An agent is lost when its
link ends, when nothing has come on it for the lease, or when what it tells cannot be read.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from procession.engines.clocks import Clocks
from procession.engines.link import Link
from procession.engines.pump import CREDIT
from procession.engines.wire import Message
from procession.system.eventloop import EventLoop
from procession.values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Listener(Protocol):
        """Who hears of agents."""

        def expects(self, slot: int) -> bool:
            """Tell whether an agent may come to this slot."""
            ...

        def joined(self, agent: AgentRecord) -> None:
            """Take note that an agent is there."""
            ...

        def lost(self, agent: AgentRecord, why: str) -> None:
            """Take note that it is gone, or unreachable."""
            ...

        def heard(self, agent: AgentRecord, message: Message) -> None:
            """Take what it tells. Raises ValueError, KeyError or TypeError for what is none."""
            ...


BEATS = 5  # in one lease
GREETING = 10.0  # seconds in which whoever connects must prove that it is an agent
STRANGERS = 64  # connections that have not proved it yet


class AgentRecord(Record):
    """What is known of an agent. owed: bytes that were shown since it was told so."""

    slot: int
    link: Link
    host: str
    pid: int
    version: str
    clocks: Clocks
    owed: int = 0


class Roster:
    """The agents that are there, by slot. All methods are for the loop's thread.

    lease: seconds. most: how many there can be. beat: gives what heartbeats tell besides.
    """

    def __init__(
        self,
        loop: EventLoop,
        listener: Listener,
        *,
        key: bytes,
        lease: float,
        most: int,
        beat: Callable[[], dict[str, Any]],
    ) -> None:
        self.agents: dict[int, AgentRecord] = {}
        self.hosts: dict[int, str] = {}  # of slots, also of agents that are gone
        self._loop = loop
        self._listener = listener
        self._key = key
        self._lease = lease
        self._most = most
        self._beat = beat
        self._strangers: dict[Link, float] = {}
        self._beat_at = time.monotonic()

    def watch(self, door: socket.socket) -> None:
        """Let agents in who come to a listening socket, and begin with heartbeats."""
        door.setblocking(False)
        self._loop.watch(door.fileno(), lambda: self._accept(door))
        self._look()

    def tell(self, slot: int, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        """Send a message; an agent that is gone gets none."""
        agent = self.agents.get(slot)
        if agent is not None:
            agent.link.send(kind, fields, blob)

    def drop(self, slot: int, why: str) -> None:
        """Give an agent up."""
        agent = self.agents.get(slot)
        if agent is not None:
            agent.link.close()
            self._lose(agent, why)

    def credit(self, blocks: list[tuple[object, int]]) -> None:
        """Let agents send more output, when it is worth a message: they have most of theirs."""
        for agent, count in blocks:
            assert isinstance(agent, AgentRecord)
            agent.owed += count
            if agent.owed >= CREDIT // 4:
                agent.link.send("credit", {"bytes": agent.owed})
                agent.owed = 0

    def close(self) -> None:
        """Close all links; nobody is told."""
        for link in [*(a.link for a in self.agents.values()), *self._strangers]:
            link.close()
        self.agents.clear()
        self._strangers.clear()

    # -- coming

    def _accept(self, door: socket.socket) -> None:
        while True:
            try:
                sock, _ = door.accept()
            except OSError:
                return  # there is nobody else; or no descriptor is left, and they come again
            if len(self._strangers) + len(self.agents) >= STRANGERS + self._most:
                next(iter(self._strangers)).lose("others came")
            self._greet(sock)

    def _greet(self, sock: socket.socket) -> None:
        link: Link

        def take(message: Message) -> None:
            del self._strangers[link]
            try:
                self._join(link, message)
            except (KeyError, ValueError, TypeError):
                link.close()

        def lost(_: str) -> None:
            self._strangers.pop(link, None)

        link = Link(self._loop, sock, self._key, "driver", take, lost)
        self._strangers[link] = time.monotonic()

    def _join(self, link: Link, message: Message) -> None:
        slot = int(message.fields["slot"])
        if message.kind != "hello" or slot in self.agents or not self._listener.expects(slot):
            link.send("bye")
            link.close()
            return
        agent = AgentRecord(
            slot=slot,
            link=link,
            host=str(message.fields["host"]),
            pid=int(message.fields["pid"]),
            version=str(message.fields["version"]),
            clocks=Clocks(),
        )
        self.agents[slot] = agent
        self.hosts[slot] = agent.host
        link.on_message(lambda m: self._take(agent, m))
        link.on_lost(lambda why: self._lose(agent, why))
        link.send("welcome")
        link.send("beat", self._beating())
        self._listener.joined(agent)

    # -- being there

    def _take(self, agent: AgentRecord, message: Message) -> None:
        try:
            if message.kind == "pulse":
                at, own = int(message.fields["at"]), int(message.fields["own"])
                agent.clocks.take(at, own, time.monotonic_ns())
            self._listener.heard(agent, message)
        except (KeyError, ValueError, TypeError) as e:
            self.drop(agent.slot, f"what it tells ({message.kind}) cannot be read: {e!r}")

    def _beating(self) -> dict[str, Any]:
        return {"at": time.monotonic_ns(), **self._beat()}

    def _look(self) -> None:
        """Tell every agent that we are here, and look who has not been heard of."""
        now = time.monotonic()
        stalled = now - self._beat_at > self._lease
        self._beat_at = now
        for slot, agent in list(self.agents.items()):
            if now - agent.link.heard_at > self._lease:
                agent.link.look()  # what has come and is not read yet, while much came from others
            silent = now - agent.link.heard_at
            # After a stop of our own, what came meanwhile is read first.
            if silent > self._lease and not stalled and self.agents.get(slot) is agent:
                self.drop(slot, f"it has said nothing for {silent:.1f} s")
            else:
                agent.link.send("beat", self._beating())
        for link, since in list(self._strangers.items()):
            if now - since > GREETING:
                link.lose("it said nothing")
        self._loop.after("beat", self._lease / BEATS, self._look)

    # -- going

    def _lose(self, agent: AgentRecord, why: str) -> None:
        if self.agents.get(agent.slot) is agent:
            del self.agents[agent.slot]
            self._listener.lost(agent, why)


__all__ = ["AgentRecord", "Roster"]
