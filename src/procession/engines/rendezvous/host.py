"""The part of the launcher that hosts the rendezvous: it drives the job of all machines."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from procession.engines.agent import Agent
from procession.engines.contract import AgentCommand, EngineEvent
from procession.engines.job import Job
from procession.engines.reception import Reception
from procession.engines.rendezvous.member import objection_of
from procession.engines.rendezvous.terms import SPARES, Terms
from procession.engines.will import Will
from procession.engines.work import Share, divide
from procession.values.errors import GroupEnd
from procession.values.spec import Spec


class Launchers:
    """The engine of a driver whose nodes come by themselves: it runs the agent of this machine.

    agent: of this machine.
    """

    name = "rendezvous"

    def __init__(self, terms: Terms, agent: Agent) -> None:
        self._terms = terms
        self._agent = agent
        self._thread: threading.Thread | None = None

    @property
    def slots(self) -> int:
        """How many launchers may be there: those of a job, and others that wait for a place."""
        return self._terms.most + (SPARES if self._terms.number is None else 0)

    def check(self) -> None:
        """Find nothing: there is nothing to look at before launchers come."""

    def start(self, agent: AgentCommand, tell: Callable[[EngineEvent], None]) -> None:
        """Start the agent of this machine; the others come."""
        self._thread = threading.Thread(
            target=self._agent.run, name="procession-agent", daemon=True
        )
        self._thread.start()

    def replace(self, slot: int) -> None:
        """Do nothing: whoever comes next gets the place."""

    def kill(self) -> None:
        """Have the ranks of this machine ended; others end when their driver is silent."""
        self._agent.let_go()

    def close(self) -> None:
        """Wait for the agent of this machine."""
        if self._thread is not None:
            self._thread.join()


def make_hosted_job(
    spec: Spec,
    terms: Terms,
    door: socket.socket,
    key: bytes,
    *,
    agent: Agent,
    last_words: Callable[[GroupEnd], dict[str, Any]],
    elects: bool = False,
    inherits: Will | None = None,
    **options: Any,
) -> Job:
    """Make the job of all machines, on the one that hosts the rendezvous.

    spec: what each machine runs. door: listens at the agreed port. agent: of this machine.
    last_words: what all launchers are told at the end. elects, inherits: see `Reception`.
    options: of `Job`.
    """
    work = divide(Share(spec), terms.most)
    if not work.restart.node_losses:
        work = work.__replace__(restart=work.restart.__replace__(node_losses=work.restart.max))
    reception = Reception(
        door=door,
        key=key,
        least=terms.least,
        gather=terms.join,
        last_call=terms.last_call,
        farewell=terms.close,
        objection=objection_of(terms),
        last_words=last_words,
        elects=elects,
        inherits=inherits,
    )
    return Job(work, Launchers(terms, agent), lease=terms.lease, reception=reception, **options)


def share_of(spec: Spec, terms: Terms) -> Spec:
    """Give what one machine runs: its restarts are the driver's."""
    return divide(Share(spec), terms.most).spec.__replace__(logs=spec.logs)
