"""What nodes are told in advance, so that one of them can take over if the host is lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from procession.rules.quorum import can_succeed
from procession.values.base import Value, cast

MOST_WAIT = 1e9  # seconds


class Heir(Value):
    """A node as it describes itself. name: that it has given itself, at random. host: its machine.
    address, port: where others find it if it takes over. hosts: it is the host of the rendezvous.
    wait: seconds until the ranks of a host that it has lost have begun to end.
    """

    name: str
    host: str
    address: str
    port: int
    hosts: bool = False
    wait: float = 0.0


class Will(Value):
    """An attempt as its nodes know it. world: its nodes, by rank. attempt, regrouped: as the host
    counts them. lost_at: when the host has noticed, too, that it is lost, by our clock.
    """

    world: tuple[Heir, ...]
    attempt: int
    regrouped: int
    lost_at: float = 0.0

    @property
    def host(self) -> str:
        """The node that hosted the rendezvous, in words, "" if that is not known."""
        for rank, heir in enumerate(self.world):
            if heir.hosts:
                return f"node {rank} ({heir.host})"
        return ""

    @property
    def restarts(self) -> int:
        """How many restarts were used: attempts that began for another reason than a change."""
        return self.attempt - self.regrouped

    def heirs(self, least: int, most: int) -> list[Heir]:
        """Give those who may take over, the first one first; none if the job cannot go on.

        least, most: how many nodes the job may have.
        """
        if not can_succeed(len(self.world), least, most):
            return []
        return [heir for heir in self.world if not heir.hosts]

    def plain(self) -> dict[str, Any]:
        """Give it as JSON can hold it."""
        world = [[getattr(each, name) for name in Heir.__match_args__] for each in self.world]
        return {"world": world, "attempt": self.attempt, "regrouped": self.regrouped}


def read_heir(said: Any) -> Heir | None:
    """Read how a node describes itself. Raises ValueError or TypeError if it is malformed."""
    if said is None:
        return None
    name, host, address, port, hosts, wait = said
    if not (0 <= _whole(port) < 65536 and 0 <= wait < MOST_WAIT):
        raise ValueError("no port, or no time to wait")
    return Heir(str(name), str(host), str(address), port, bool(hosts), float(wait))


def read_will(said: Any) -> Will | None:
    """Read what the host has told, None if it has told nothing. Raises ValueError, KeyError or
    TypeError if it is malformed.
    """
    if said is None:
        return None
    heirs = [read_heir(each) for each in cast("Sequence[Any]", said["world"])]
    world = tuple(heir for heir in heirs if heir is not None)
    return Will(world, _whole(said["attempt"]), _whole(said["regrouped"]))


def _whole(said: Any) -> int:
    if type(said) is not int:  # JSON has infinite numbers, too
        raise ValueError("no whole number")
    return said
