"""The node processes of a job: which are connected, and when each was heard last.

Theory of operation. A connection is a stranger until its first message has proved that it has the
key; that message must be a greeting, and come within `GREETING` seconds. If there are too many
strangers, the oldest is disconnected, so nobody can keep node processes out by holding connections
open. Heartbeats are sent five times per lease, and each answer also compares the clocks. A node
process is lost when its link ends, when nothing has come on it for the time of the lease, or when
it sends something that cannot be read.
"""

from __future__ import annotations

import socket
import time
from functools import partial
from platform import python_version
from typing import Any

from procession.driver.jobend import Clocks
from procession.driver.jobstate import JobState, NodeRecord
from procession.driver.nodeevents import NodeEvents
from procession.engines.link import NodeLink
from procession.engines.ownnode import numbers_of
from procession.engines.will import read_heir
from procession.engines.wire import Message
from procession.rules.jobwords import Slot
from procession.values.version import __version__

BEATS = 5  # in one lease
GREETING = 10.0  # seconds for a connection to prove that it is a node process
STRANGERS = 64  # connections that have not proved it yet


class NodeLinks:
    """Takes node processes into `JobState.nodes`, and out. For the loop's thread."""

    def __init__(self, state: JobState, listener: NodeEvents) -> None:
        self._loop = state.loop
        self._nodes = state.nodes
        self._state = state
        self._listener = listener
        self._lease = state.lease
        self._strangers: dict[NodeLink, float] = {}  # and node processes that were dismissed
        self._beat_at = time.monotonic()
        self._stall = (0.0, 0.0)  # the last one of this process: when it was seen, and how long
        self._told = False  # that somebody was turned away

    def watch(self, door: socket.socket) -> None:
        """Accept node processes from a listening socket, and begin with heartbeats."""
        door.setblocking(False)
        self._loop.watch(door.fileno(), lambda: self._accept(door))
        self._send_heartbeats()

    def drop(self, slot: int, why: str) -> None:
        """Give a node process up as lost."""
        node = self._nodes.get(slot)
        if node is not None:
            node.link.close()
            self._lose(node, why)

    def dismiss(self, slot: int) -> None:
        """Let a node process go that is to leave."""
        node = self._nodes.pop(slot, None)
        if node is not None:
            node.link.send("bye", {"left": True})
            self._strangers[node.link] = time.monotonic()

    def close(self) -> None:
        """Close all links, without a message."""
        for link in [*(a.link for a in self._nodes.values()), *self._strangers]:
            link.close()
        self._nodes.clear()
        self._strangers.clear()

    # -- coming

    def _accept(self, door: socket.socket) -> None:
        while True:
            try:
                sock, _ = door.accept()
            except OSError:
                return  # no other one waits; or no descriptor is left, and they will try again
            self._greet(sock)

    def _greet(self, sock: socket.socket) -> None:
        if len(self._strangers) + len(self._nodes) >= STRANGERS + self._state.life.count:
            self._drop(next(iter(self._strangers)))
        link: NodeLink
        address, reached = _address(sock), str(sock.getsockname()[0]).removeprefix("::ffff:")

        def take(message: Message) -> None:
            del self._strangers[link]
            try:
                self._join(link, message, "" if address == reached else address, reached)
            except (KeyError, ValueError, TypeError, OverflowError):
                link.close()

        def turn_away(why: str) -> None:
            if not (link.closed_there or self._told):  # once: anybody can knock
                self._told = True
                self._state.say(f"procession: {address} was refused: {why} [P417]")
            self._drop(link)

        key, reception = self._state.key, self._state.reception
        first = reception.trust.first if reception is not None else b""
        link = NodeLink(self._loop, sock, key, "driver", take, turn_away, first)
        self._strangers[link] = time.monotonic()

    def _drop(self, stranger: NodeLink) -> None:
        self._strangers.pop(stranger, None)
        stranger.close()

    def _join(self, link: NodeLink, message: Message, peer: str, reached: str) -> None:
        slot = int(message.fields["slot"])
        life, reception = self._state.life, self._state.reception
        if slot < 0:  # it has none yet
            slot = next((n for n, state in enumerate(life.slots) if state is Slot.AWAITED), slot)
        awaited = 0 <= slot < life.count and life.slots[slot] is Slot.AWAITED
        if message.kind != "hello" or not awaited or life.phase.final:
            link.send("bye", {"later": True})
            link.close()
            return
        node = NodeRecord(
            slot=slot,
            link=link,
            host=str(message.fields["host"]),
            pid=int(message.fields["pid"]),
            python=str(message.fields["python"]),
            clocks=Clocks(),
            order=_order(message.fields.get("order")),
            nproc=int(message.fields.get("nproc", 0)),
            heir=read_heir(message.fields.get("heir")),
            peer=peer,
            reached=reached,
            interface=str(message.fields.get("interface", "")),
        )
        if reception is not None:
            reception.missing.pop(slot, None)
        why = self._refusal(node, message.fields)
        if why:
            link.send("bye", {"why": why})
            link.close()
            self._listener.refused(node, why)
            return
        self._nodes[slot] = node
        link.take, link.lost = partial(self._take_message, node), partial(self._lose, node)
        # The launcher of one that comes by itself has some of its own.
        numbers = numbers_of(self._state.work.spec, self._lease) if reception is not None else {}
        link.send("welcome", {"lease": self._lease, "numbers": numbers})
        link.send("beat", self._beating())
        self._listener.joined(node)

    def _refusal(self, node: NodeRecord, greeting: dict[str, Any]) -> str:
        """Say why a node process cannot be taken, "" if it can."""
        if (version := greeting["version"]) != __version__:
            return (
                f"{node.host} has procession {version}, and this job {__version__}: install the "
                "same on all nodes [P212]"
            )
        if (self._state.encrypted or greeting.get("encrypted")) and not node.link.encryption:
            return (
                f"links must be encrypted (--link-encryption required): {node.host} has Python "
                f"{node.python}, and the other end {python_version()}; both must be 3.13 or later, "
                "with an OpenSSL that has TLS-PSK [P215]"
            )
        reception = self._state.reception
        return reception.object_to(greeting) if reception is not None else ""

    # -- being there

    def _take_message(self, node: NodeRecord, message: Message) -> None:
        if self._nodes.get(node.slot) is not node:
            return  # it was dismissed
        try:
            if message.kind == "pulse":
                at, own = int(message.fields["at"]), int(message.fields["own"])
                node.clocks.take_round_trip(at, own, time.monotonic_ns())
            self._listener.heard(node, message)
        except (KeyError, ValueError, TypeError, OverflowError) as e:
            self.drop(node.slot, f"what it tells ({message.kind}) cannot be read: {e!r}")

    def _beating(self) -> dict[str, Any]:
        return {"at": time.monotonic_ns(), **self._state.beat()}

    def _send_heartbeats(self) -> None:
        """Send a heartbeat to every node process, and give up those that are silent too long."""
        now = time.monotonic()
        stalled = now - self._beat_at > self._lease
        if stalled:
            self._stall = (now, now - self._beat_at)
        self._beat_at = now
        for slot, node in list(self._nodes.items()):
            if now - node.link.heard_at > self._lease:
                node.link.exchange()  # which reads what came while others kept us busy
            silent = now - node.link.heard_at
            # If this process itself was stopped, what came meanwhile is read first.
            if silent > self._lease and not stalled and self._nodes.get(slot) is node:
                self.drop(slot, f"it has said nothing for {silent:.1f} s")
            else:
                node.link.send("beat", self._beating())
        for link, since in list(self._strangers.items()):
            if link.closed or now - since > GREETING:
                self._drop(link)
        self._loop.after("beat", self._lease / BEATS, self._send_heartbeats)

    # -- going

    def _lose(self, node: NodeRecord, why: str) -> None:
        if self._nodes.get(node.slot) is node:
            del self._nodes[node.slot]
            self._listener.lost(node, f"{why}{self._own_part()}")

    def _own_part(self) -> str:
        """Say so if this process itself was silent for a lease: nodes end their ranks then."""
        now = time.monotonic()
        seen, long = self._stall
        if now - self._beat_at > self._lease:
            seen, long = now, now - self._beat_at
        if not long or now - seen > self._lease:
            return ""
        return (
            f"; this process itself was stopped, or got no processor, for {long:.1f} s, and nodes "
            f"wait {self._lease:g} s for it"
        )


def _address(sock: socket.socket) -> str:
    """Give the address of who has made a connection, as people write it."""
    try:
        return str(sock.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return "an unknown machine"  # it has gone already


def _order(said: Any) -> tuple[Any, ...]:
    """Read by what a node is put in order. Raises ValueError or TypeError if it is malformed."""
    if said is None:
        return ()
    name, number = said
    return str(name), int(number)
