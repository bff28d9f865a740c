"""What a driver needs to know if nodes come by themselves, and no engine starts them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from procession.values.base import Record
from procession.values.errors import GroupEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.engines.rendezvous.secret import Trust
    from procession.engines.rendezvous.terms import Terms
    from procession.engines.will import Will

NOT_AGAIN = "does not start a launcher again that was lost"
MOST_RANKS = 1 << 16  # of a machine
SHOWN = 8  # machines that are named


class Reception(Record):
    """Where nodes come, and what they are told.

    door: the socket that listens. trust: by what they are known. terms: what all have agreed on.
    missing: of the launchers that one command has started, those that have not come, by number.
    last_words: what all nodes are told at the end of the job, which the driver gives it. elects:
    whether another machine takes over if this one is lost. inherits: of the host that is lost,
    where the job began elsewhere.
    """

    door: socket.socket
    trust: Trust
    terms: Terms
    missing: dict[int, str]
    last_words: Callable[[GroupEnd], dict[str, Any]]
    elects: bool = False
    inherits: Will | None = None

    @property
    def sealed(self) -> str:
        """Why no other node comes for one that is lost, "" where one may."""
        return f"{self.terms.starter} {NOT_AGAIN}" if self.terms.starter else ""

    def object_to(self, greeting: Any) -> str:
        """Say why a launcher that greets so cannot be taken, "" if it can."""
        nproc, *asked = (int(greeting[name]) for name in ("nproc", "least", "most"))
        who, here, terms = str(greeting["host"]), self.terms.at, self.terms
        if asked != [terms.least, terms.most]:
            return (
                f"{who} was started with --nnodes {_count(*asked)}, and {here} with "
                f"{_count(terms.least, terms.most)}: write the same on all machines"
            )
        if not 0 < nproc <= MOST_RANKS:
            return f"{who} cannot have {nproc} ranks"
        if (terms.number is None) != ("order" in greeting):
            return f"{who} and {here} have different --rdzv-backend: write the same on all"
        return ""

    def absent(self) -> str:
        """Say who has not come, "" where that is not known."""
        names = [name or f"launcher {n}" for n, name in self.missing.items()]
        more = ", ..." if len(names) > SHOWN else ""
        if not names:
            return ""
        who = f"{', '.join(names[:SHOWN])}{more}"
        why = "is procession installed there? If so, its own lines say why it did not join"
        return f"nothing came from {who}: {why} [P211]"


def _count(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"
