"""Launchers that come when there is no job, or none any more, are told so.

Where one command has started all of them, each comes some time, and would wait for a host that has
gone: since it could not begin, or since the job was over before a spare launcher was there.
"""

from __future__ import annotations

import contextlib
from typing import Any

from procession.engines.rendezvous.hosting import open_door
from procession.engines.rendezvous.member import number_of
from procession.engines.rendezvous.secret import Trust
from procession.engines.rendezvous.terms import Terms
from procession.engines.roster import AgentRecord, Roster
from procession.engines.wire import Message
from procession.system.eventloop import EventLoop
from procession.values.errors import SpecError

WHY = "there is no job here any more"


def dismiss(terms: Terms, trust: Trust, missing: set[int], seconds: float) -> None:
    """Tell launchers that there is no job; returns when all know it, or time is over.

    missing: their numbers.
    """
    if not missing or seconds <= 0:
        return
    with contextlib.suppress(SpecError):  # then they find nobody, and give up by themselves
        door = open_door(terms)
        assert door is not None
        loop = EventLoop()
        closed = _Closed(missing)
        roster = Roster(loop, closed, key=trust.key, lease=terms.lease, most=terms.most,
                        beat=dict, admits=trust.admits)  # fmt: skip
        over: list[bool] = []
        loop.after("over", seconds, lambda: over.append(True))
        try:
            roster.watch(door)
            while closed.missing and not over:
                loop.turn()
        finally:
            roster.close()
            door.close()
            loop.close()


class _Closed:
    """Takes nobody; a `roster.Listener`. missing: who has not heard of it."""

    def __init__(self, missing: set[int]) -> None:
        self.missing = set(missing)

    def expects(self, slot: int) -> bool:
        return True

    def seat(self) -> int:
        return 0

    def objection(self, greeting: dict[str, Any]) -> str:
        self.missing.discard(number_of(greeting))
        return WHY

    def joined(self, agent: AgentRecord) -> None:
        """Never comes."""

    def refused(self, agent: AgentRecord, why: str) -> None:
        """Nothing follows."""

    def strayed(self, address: str) -> None:
        """Nothing follows."""

    def lost(self, agent: AgentRecord, why: str) -> None:
        """Never comes."""

    def heard(self, agent: AgentRecord, message: Message) -> None:
        """Never comes."""
