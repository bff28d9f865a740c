"""What a driver needs to know if nodes come by themselves, and no engine starts them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from procession.engines.will import Will
from procession.values.base import Record
from procession.values.errors import GroupEnd


def _unknown() -> str:
    return ""


class Reception(Record):
    """Where nodes come, and what they are told.

    door: the socket that listens. key: of their links. least: how many nodes are enough. gather:
    seconds in which enough must come. last_call: seconds for more, once enough are there. farewell:
    seconds for them to leave. objection: says why a node cannot be taken, by its greeting, "" if it
    can. last_words: what all nodes are told at the end of the job, which the driver gives it.
    elects: whether another machine takes over if this one is lost.
    inherits: of the host that is lost, where the job began elsewhere. first: what is sent first on
    each link. sealed: why no other node comes for one that is lost, "" where one
    may. absent: says which nodes have not come, "" where that is not known.
    """

    door: socket.socket
    key: bytes
    least: int
    gather: float
    last_call: float
    farewell: float
    objection: Callable[[Mapping[str, Any]], str]
    last_words: Callable[[GroupEnd], dict[str, Any]]
    elects: bool = False
    inherits: Will | None = None
    first: bytes = b""
    sealed: str = ""
    absent: Callable[[], str] = _unknown
