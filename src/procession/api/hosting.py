"""The part of the launcher that hosts the rendezvous: it drives the job of all machines."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from procession.api.jobs import group_on
from procession.driver.reception import Reception
from procession.engines.contract import EngineEvent, NodeCommand
from procession.engines.nodeprocess import NodeProcess
from procession.engines.rendezvous.secret import Trust
from procession.engines.rendezvous.terms import SPARES, Terms
from procession.engines.will import Will
from procession.group.group import Group
from procession.prepare.work import Share, divide
from procession.values.errors import GroupEnd
from procession.values.spec import Spec

NOT_AGAIN = "does not start a launcher again that was lost"
MOST_RANKS = 1 << 16  # of a machine
SHOWN = 8  # machines that are named


class Launchers:
    """The engine of a driver whose nodes come by themselves: it runs this machine's node process.

    node: of this machine.
    """

    name = "rendezvous"

    def __init__(self, terms: Terms, node: NodeProcess) -> None:
        self._terms = terms
        self._node = node
        self._thread: threading.Thread | None = None

    @property
    def slots(self) -> int:
        """How many launchers may be there: those of a job, and others that wait for a place."""
        return self._terms.most + (SPARES if self._terms.number is None else 0)

    def check(self) -> None:
        """Find nothing: there is nothing to look at before launchers come."""

    def start(self, command: NodeCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Start the node process of this machine; the others come."""
        self._thread = threading.Thread(target=self._node.run, name="procession-node", daemon=True)
        self._thread.start()

    def replace(self, slot: int) -> None:
        """Do nothing: whoever comes next gets the place."""

    def kill(self) -> None:
        """Have the ranks of this machine ended; others end when their driver is silent."""
        self._node.let_go()

    def close(self) -> None:
        """Wait for the node process of this machine."""
        if self._thread is not None:
            self._thread.join()


class Roll:
    """Which of the launchers have come that one command has started."""

    def __init__(self, terms: Terms) -> None:
        self._missing = dict(enumerate(terms.together))
        self._terms = terms

    def object_to(self, greeting: Any) -> str:
        """Take note of a launcher that comes; gives why it cannot be taken, "" if it can."""
        self._missing.pop(greeting["slot"], None)
        nproc, *asked = (int(greeting[name]) for name in ("nproc", "least", "most"))
        who, here, terms = str(greeting["host"]), self._terms.at, self._terms
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
        names = [name or f"launcher {n}" for n, name in self._missing.items()]
        more = ", ..." if len(names) > SHOWN else ""
        if not names:
            return ""
        who = f"{', '.join(names[:SHOWN])}{more}"
        why = "is procession installed there? If so, its own lines say why it did not join"
        return f"nothing came from {who}: {why} [P211]"


def make_hosted_job(
    spec: Spec,
    terms: Terms,
    door: socket.socket,
    trust: Trust,
    *,
    node: NodeProcess,
    last_words: Callable[[GroupEnd], dict[str, Any]],
    elects: bool = False,
    inherits: Will | None = None,
    **options: Any,
) -> Group:
    """Make the job of all machines, on the one that hosts the rendezvous.

    spec: what each machine runs. door: listens at the agreed port. node: of this machine.
    last_words: what all launchers are told at the end. elects, inherits: see `Reception`.
    options: of `group_on`.
    """
    roll = Roll(terms)
    work = divide(Share(_with_losses(spec)), terms.most)
    reception = Reception(
        door=door,
        key=trust.key,
        least=terms.least,
        gather=terms.join,
        last_call=terms.last_call,
        farewell=terms.close,
        objection=roll.object_to,
        last_words=last_words,
        elects=elects,
        inherits=inherits,
        first=trust.first,
        sealed=f"{terms.starter} {NOT_AGAIN}" if terms.starter else "",
        absent=roll.absent,
    )
    return group_on(work, Launchers(terms, node), lease=terms.lease, reception=reception, **options)


def share_of(spec: Spec, terms: Terms) -> Spec:
    """Give what one machine runs.

    Prefixes name the machine only where the lines of all come to one console.
    """
    own = divide(Share(_with_losses(spec)), terms.most).spec
    return own if terms.starter else own.__replace__(logs=spec.logs)


def _with_losses(spec: Spec) -> Spec:
    """Give the spec; the loss of a machine counts as any failure, where nothing else is said."""
    restart = spec.restart
    if restart.node_losses:
        return spec
    return spec.__replace__(restart=restart.__replace__(node_losses=restart.max))


def _count(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"
