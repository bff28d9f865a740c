"""What a driver needs to know if nodes come by themselves, without an engine to start agents."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from procession.engines.jobwords import JobPhase, Slot
from procession.engines.lifecycle import JobLife
from procession.engines.will import Will
from procession.system.eventloop import EventLoop
from procession.values.base import Record
from procession.values.errors import GroupEnd

SAID_AFTER = (5.0, 25.0, 90.0)  # seconds between two lines that nodes are missing


class Reception(Record):
    """Where nodes come, and what they are told.

    door: the socket that listens. key: of their links. least: how many nodes are enough. gather:
    seconds in which enough must come. last_call: seconds for more, once enough are there. farewell:
    seconds for them to leave. objection: says why a node cannot be taken, by its greeting, "" if it
    can. last_words: what all nodes are told at the end of the job, which the driver gives it.
    elects: whether another machine takes over if this one is lost.
    inherits: of the host that is lost, where the job began elsewhere.
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


def say_missing(
    life: JobLife,
    loop: EventLoop,
    announce: Callable[[str], None],
    after: tuple[float, ...] = SAID_AFTER,
) -> None:
    """Say now and then that nodes are missing that are to come by themselves.

    after: seconds until the next line, and those after it; the last of them again and again.
    """

    def say() -> None:
        if life.attempt or life.phase is not JobPhase.GATHERING:
            return
        there, needs = life.tally[Slot.IDLE], life.least
        if there < needs:
            announce(f"{there} of {needs} machines came; waiting for the others")
        say_missing(life, loop, announce, after[1:] or after)

    loop.after("missing", after[0], say)
