"""What a driver needs to know if nodes come by themselves, and no engine starts them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from procession.engines.will import Will
from procession.prepare.work import Work
from procession.rules.joblife import JobLife
from procession.rules.jobwords import JobPhase, Slot
from procession.system.eventloop import EventLoop
from procession.values.base import Record
from procession.values.errors import GroupEnd

SAID_AFTER = (5.0, 25.0, 90.0)  # seconds between two lines that nodes are missing


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


def life_of(work: Work, slots: int, reception: Reception | None) -> JobLife:
    """Make the life of a job. slots: of its engine. reception: None where nodes are started."""
    count, replaces = max(work.nodes, slots), work.restart.node_losses > 0
    if reception is None:
        return JobLife.of(work.nodes, count, replaces=replaces)
    return JobLife.of(
        work.nodes,
        count,
        replaces=replaces,
        least=reception.least,
        open=True,
        elects=reception.elects,
        sealed=bool(reception.sealed),
    )


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
