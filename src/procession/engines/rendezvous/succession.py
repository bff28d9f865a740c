"""Where the host of an elastic job is lost, one of the launchers that are left takes its place.

Theory of operation. Each launcher that joins has a door of its own, at which nobody answers yet.
The host tells each node with every attempt which nodes take part, and where their doors are: the
will. When a node loses the host, it ends its ranks. If the will says that the others are enough
(see `rules.quorum`), it goes to the doors of the nodes before it, as a node process; they may
still be ending their ranks, so it knocks for some seconds for each of them, and at each in turn:
most of them will never answer. If nobody takes it, or there is none before it, it becomes a driver
itself, with the attempt and the restarts of the will, and waits for the others. It launches when
more than half of the last world have come, and when the ranks of the old host have certainly ended:
either the host's system has closed the connection, or both sides have heard nothing for the time of
a lease.

Two nodes may become drivers at the same time, if the first one is slow. Each node is the node
process of one of them, so at most one has enough; where none has, the job ends.

Rejected: votes and terms of office as in Raft. Nothing is to be agreed on but who goes on, and a
node that joins a driver has said so.
"""

from __future__ import annotations

import secrets
import socket

from procession.engines.addresses import listen
from procession.engines.nodeprocess import NodeProcess
from procession.engines.rendezvous.terms import Terms
from procession.engines.will import Heir, Will

BESIDE_LEASE = 5.0  # seconds for a node to end its ranks and to become a driver, beside a lease


class Succession:
    """What one launcher needs to go on without the host.

    A context manager, which closes its door. hosts: whether it is the host itself. will: what the
    last host has told last.
    """

    def __init__(self, terms: Terms, *, hosts: bool = False) -> None:
        self._terms = terms
        self._hosts = hosts
        self._name = secrets.token_hex(8)
        self._door: socket.socket | None = listen() if terms.elastic and not hosts else None
        self._port = self._door.getsockname()[1] if self._door is not None else 0
        self._tried = False
        self.will: Will | None = None

    def __enter__(self) -> Succession:
        return self

    def __exit__(self, *_: object) -> None:
        if self._door is not None:
            self._door.close()

    def introduce(self, node: NodeProcess) -> NodeProcess:
        """Let a node process say where others find this launcher."""
        assert node.own is not None
        lost_at = self.will.lost_at if self.will is not None else 0.0
        node.own.heir = (self._name, self._port, self._hosts, lost_at)
        return node

    def goes_on(self, node: NodeProcess) -> bool:
        """Tell whether the job may go on although the driver of this node process is lost."""
        self._tried = not node.joined
        self.will = node.will or self.will
        over = bool(node.last_words or node.signalled) or not node.lost
        return not over and self._own is not None

    @property
    def _heirs(self) -> list[Heir]:
        return self.will.heirs(self._terms.least, self._terms.most) if self.will is not None else []

    @property
    def _own(self) -> Heir | None:
        return next((heir for heir in self._heirs if heir.name == self._name), None)

    @property
    def elders(self) -> list[Heir]:
        """The nodes to which this one is to go; none if it is to become the host."""
        names = [heir.name for heir in self._heirs]
        return [] if self._tried else self._heirs[: names.index(self._name)]

    def terms_of_elders(self) -> Terms:
        """Give the terms for the way to them: where the first one is, and for how long to knock."""
        elders, each = self.elders, self._terms.lease + BESIDE_LEASE
        return self._terms.__replace__(
            host=elders[0].address,
            port=elders[0].port,
            further=(),
            join=each * len(elders),
            read=each / 5,  # in turns
        )

    def take_over(self) -> tuple[Terms, socket.socket]:
        """Give the terms for being the host, and the door, which is the caller's from now on."""
        assert self._own is not None
        assert self._door is not None
        own, door, self._door = self._own, self._door, None
        gather = 2 * (self._terms.lease + BESIDE_LEASE)
        terms = self._terms.__replace__(host=own.address, port=own.port, join=gather)
        self._hosts = True
        return terms, door
