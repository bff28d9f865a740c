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


class Launchers:
    """The engine of a driver whose nodes come by themselves: it runs this machine's node process.

    node: of this machine.
    """

    name = "rendezvous"

    def __init__(self, terms: Terms, node: NodeProcess) -> None:
        # How many may be there: those of a job, and others that wait for a place.
        self.slots = terms.most + (SPARES if terms.number is None else 0)
        self._node = node
        self._thread: threading.Thread | None = None

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
    work = divide(Share(_with_losses(spec)), terms.most)
    missing = dict(enumerate(terms.together))
    reception = Reception(door, trust, terms, missing, last_words, elects, inherits)
    return group_on(work, Launchers(terms, node), lease=terms.lease, reception=reception, **options)


def share_of(spec: Spec, terms: Terms) -> Spec:
    """Give what one machine runs.

    Prefixes name the machine only where the lines of all come to one console. A machine with one
    rank has prefixes as well: what it writes is seen then.
    """
    own = divide(Share(_with_losses(spec)), terms.most).spec
    if terms.starter:
        return own
    prefix = "[{rank}] " if spec.logs.prefix == "auto" and terms.most > 1 else spec.logs.prefix
    return own.__replace__(logs=spec.logs.__replace__(prefix=prefix))


def _with_losses(spec: Spec) -> Spec:
    """Give the spec; the loss of a machine counts as any failure, where nothing else is said."""
    restart = spec.restart
    if restart.node_losses:
        return spec
    return spec.__replace__(restart=restart.__replace__(node_losses=restart.max))
