"""Whether the machines that are in contact may go on with an elastic job, or others may. Pure.

Theory of operation. The host of a rendezvous may be lost, and the network may be cut in two. At
most one side may go on. So each attempt has a world, the nodes that it was launched on, and a side
needs enough of the last world:

- The side of its host needs half of it: the host has the casting vote.
- A side without the host, on which another node takes over, needs more than half of it.

Not all nodes of a new world know of it at once. Until all have said that their ranks run, the host
needs half of every world since the last one that all knew. So whoever knows an older world only is
no member of a side that has enough of it. A node that asked to leave votes for nobody else, and
counts as being there.
"""

from __future__ import annotations

from procession.values.base import Value


class World(Value):
    """The nodes of one attempt.

    size: how many they were. there: the slots of those that are in contact. inherited: it was that
    of a host that is lost.
    """

    size: int
    there: frozenset[int]
    inherited: bool = False

    @property
    def holds(self) -> bool:
        """Whether the nodes that are there may go on."""
        there = 2 * len(self.there)
        return there > self.size if self.inherited else there >= self.size

    def without(self, slot: int) -> World:
        """Give the same world without a node that was lost."""
        return self.__replace__(there=self.there - {slot})

    def joined_by(self, slot: int) -> World:
        """Give the same world with a node that has come to the new host."""
        return self.__replace__(there=self.there | {slot})


def can_succeed(size: int, least: int, most: int) -> bool:
    """Tell whether the nodes of a world of this size can go on if its host is lost.

    least, most: how many nodes the job may have.
    """
    left = size - 1
    return least < most and left >= least and 2 * left > size
