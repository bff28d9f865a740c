"""What is known of a node process that is connected."""

from __future__ import annotations

from typing import Any

from procession.driver.clocks import Clocks
from procession.engines.link import Link
from procession.engines.will import Heir
from procession.values.base import Record


class NodeRecord(Record):
    """What is known of a node process.

    order, nproc: where nodes come by themselves, by which they are put in order, and how many ranks
    each has. heir: how others find it if it takes over. peer: its address, "" on this machine.
    reached: our own address on its link. interface: that of its link, "" if unknown. owed: bytes of
    its output shown since its last credit.
    """

    slot: int
    link: Link
    host: str
    pid: int
    version: str
    python: str
    clocks: Clocks
    order: tuple[Any, ...] = ()
    nproc: int = 0
    heir: Heir | None = None
    peer: str = ""
    reached: str = ""
    interface: str = ""
    owed: int = 0
