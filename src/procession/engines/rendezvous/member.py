"""The part of every launcher of a rendezvous: it runs the ranks of its machine, as a node process.

The launcher that hosts the rendezvous has this part, too, in a thread beside the driver.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from procession.engines.contract import Invitation
from procession.engines.nodeprocess import NodeProcess
from procession.engines.ownnode import OwnNode
from procession.engines.rendezvous.hosting import is_own, open_door, own_name
from procession.engines.rendezvous.secret import Trust
from procession.engines.rendezvous.terms import Terms
from procession.values.base import Value
from procession.values.errors import SpecError
from procession.values.spec import Spec

SAID_AFTER = 5.0  # seconds of waiting after which it is said, and again after three times as many
ANY_SLOT = -1


class JobVerdict(Value):
    """How the job ended, for one launcher. said: a report or a line, "" for nothing. code: to exit
    with. found: whether there was a job at all.
    """

    said: str
    code: int
    found: bool = True


class HostSearch:
    """Says now and then that the host of the rendezvous has not been found yet.

    On the machine that is to host it, where something else had the port at first, it becomes the
    host as soon as the port is free. door: the socket that listens then.
    """

    def __init__(self, terms: Terms, say: Callable[[str], None], *, may_host: bool = False) -> None:
        self._terms = terms
        self._say = say
        self._may_host = may_host and terms.is_host is None and is_own(terms.host, terms.join)
        self.door: socket.socket | None = None
        self._began = time.monotonic()
        self._next = SAID_AFTER

    @property
    def left(self) -> float:
        """How many seconds are left to wait for others."""
        return max(1.0, self._began + self._terms.join - time.monotonic())

    def __call__(self, fault: str) -> bool:
        """Take note that it was not found, and why; tells whether to look no further."""
        if self._may_host:
            with contextlib.suppress(SpecError):  # the port is not free yet
                self.door = open_door(self._terms.__replace__(is_host=True))
        if self.door is None:
            self._say_why(fault)
        return self.door is not None

    def _say_why(self, fault: str) -> None:
        waited = time.monotonic() - self._began
        if waited < self._next:
            return
        self._next = 3 * waited
        self._say(
            f"waiting for the rendezvous at {self._terms.at}, for {self.left:.0f} s more: "
            f"{explained(fault, self._terms)} [P417]"
        )


def explained(fault: str, terms: Terms) -> str:
    """Say what a fault of the connection to the host may mean."""
    if "no node is wanted" in fault:
        which = "" if terms.number is None else f": is another launcher there with {terms.number}?"
        return f"all places are taken{which}"
    if any(word in fault for word in ("ended", "broke", "key", "protocol")):
        return (
            f"what listens there sent us away ({fault}): is it another program, or another "
            f"job, with another id than {terms.run_id!r}, of another user, or with another secret?"
        )
    return fault


def why_none(sent_away: str, last: str, terms: Terms) -> str:
    """Say why no rendezvous was found, by what was the matter with the connection to the host.

    sent_away: why one who answered did not take us, "" if nobody answered: that says more than the
    fault of the last try, since that job may have ended meanwhile.
    """
    said = explained(sent_away or last, terms)
    return said if sent_away in ("", last) else f"{said} Later: {last}"


def make_node_process(
    spec: Spec,
    terms: Terms,
    trust: Trust,
    *,
    hosts: bool,
    signals: Sequence[int] = (),
    ending: Iterable[int] = (),
    say: Callable[[str], None],
    also: Sequence[tuple[str, int]] = (),
    waiting: HostSearch | None = None,
    encrypted: bool = False,
) -> NodeProcess:
    """Make the node process of this machine.

    spec: what each machine runs. hosts: also the rendezvous. signals, ending: see `OwnNode`.
    also: further addresses and ports at which the host may be. waiting: what is to be done as long
    as the host is not found. encrypted: whether the link must be.
    """
    known: dict[str, Any] = {"nproc": spec.nproc, "least": terms.least, "most": terms.most}
    known |= {"encrypted": encrypted, "lease": terms.lease}
    if terms.number is None:
        known["order"] = [terms.local_addr or own_name(), os.getpid()]
    waits = waiting or HostSearch(terms, say if terms.tells else _nobody)
    own = OwnNode(
        spec=spec,
        greeting=known,
        address=terms.local_addr or (terms.host if hosts else ""),
        patience=waits.left,
        answer=terms.read,
        signals=tuple(signals),
        ending=frozenset(ending),
        say=say,
        hears=say if terms.tells and not hosts else _nobody,
        waits=waits,
        values={},
        errors={},
        meets=(terms.host, terms.ranks_port) if terms.ranks_port else ("", 0),
        learns=trust.learns,
    )
    there = [(terms.host, port) for port in (terms.port, *terms.further)]
    at = ((("127.0.0.1", terms.port),) if hosts else ()) + (*there, *also)
    slot = ANY_SLOT if terms.number is None else terms.number
    return NodeProcess(Invitation(at, trust.key, slot), own)


def _nobody(_: str) -> None:
    """Say nothing: another one says it on this console."""


def take_part(node: NodeProcess, terms: Terms, name: str) -> JobVerdict:
    """Run the node process of a launcher that is not the host, to the end of the job.

    name: of what is run.
    """
    node.run()
    words = node.last_words
    if words and not terms.tells:
        return JobVerdict("", 0)  # the first launcher says it, and its exit code counts
    if words.get("why"):
        return JobVerdict(f"procession: {words['why']}", 1, found=False)
    if words.get("left"):
        how = signal.Signals(node.signalled).name if node.signalled else "the host's word"
        said = f"this machine left {name} after {how}; the others continue [P419]"
        return JobVerdict(f"procession: {said}", 128 + node.signalled)
    if words:
        said = filter(None, (say_spare(node, name), str(words.get("said", ""))))
        return JobVerdict("\n".join(said), int(words.get("code", 0)))
    if node.signalled and not node.joined:
        how = signal.Signals(node.signalled).name
        said = f"{name} was not started: {how} came while it waited for {terms.places} [P412]"
        said = f"procession: {said}" if terms.tells else ""
        return JobVerdict(said, 128 + node.signalled, found=False)
    if not node.joined:
        said = (
            f"{name} could not be started: no rendezvous at {terms.places} within "
            f"{terms.join:g} s: {why_none(node.sent_away, node.lost, terms)} [P221]"
        )
        return JobVerdict(f"procession: {said}", 1, found=False)
    said = f"{name} was ended here: {say_lost(node, terms)} [P419]"
    return JobVerdict(f"procession: {said}", 128 + node.signalled if node.signalled else 1)


def say_lost(node: NodeProcess, terms: Terms) -> str:
    """Say that the host is lost, which node it was, and why."""
    who = f"the launcher at {terms.at}"
    if node.will is not None and node.will.host:
        who = f"{node.will.host}, at {terms.at}"
    why = node.lost.partition(" is lost: ")[2] or "it ended"
    return f"{who}, which hosts the rendezvous, is lost ({why})"


def say_spare(node: NodeProcess, name: str) -> str:
    """Say that this machine was not needed at the end of the job, "" if it was.

    name: of what was run.
    """
    said = f"procession: this machine was not needed: {name} has ended without it [P419]"
    return said if node.last_words.get("spare") else ""
