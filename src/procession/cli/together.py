"""`procession run` where one launcher is started on each machine, and they find each other."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from procession.api.jobs import make_hosted_job, share_of
from procession.cli.options import OPTIONS
from procession.cli.request import Request
from procession.cli.run import abort_others, conduct_job, ending, made
from procession.cli.say import refuse, say_line, say_note
from procession.cli.signals import RunSignals
from procession.engines.contract import EngineError
from procession.engines.nodeprocess import NodeProcess
from procession.engines.rendezvous.hosting import open_door, with_address
from procession.engines.rendezvous.member import (
    HostSearch,
    JobVerdict,
    make_node_process,
    say_lost,
    say_spare,
    take_part,
)
from procession.engines.rendezvous.secret import Trust, find_trust
from procession.engines.rendezvous.succession import Succession
from procession.engines.rendezvous.terms import Terms
from procession.engines.tunnel import check
from procession.explain.ends import not_started
from procession.explain.summary import summary
from procession.group.group import CONTROL
from procession.output.wiring import Output
from procession.values.base import Value
from procession.values.errors import GroupEnd, Outcome, SpecError
from procession.values.policy import Logs
from procession.values.spec import Spec

Plan = Callable[[Spec, str], tuple[Spec, Output]]
_say = partial(say_note, patience=0.0)
ANOTHERS: dict[str, Any] = {}  # in the place of a result that another launcher prints


class _Part(Value):
    """What this launcher has for its part in the job, whoever hosts the rendezvous.

    own, plan: what this machine runs, and how it lays out logs, None as ever. trust: by what
    launchers know each other. encryption: of links, "auto" or "required".
    """

    prog: str
    request: Request
    trust: Trust
    own: Spec
    plan: Plan | None
    encryption: str

    def node(self, succession: Succession, terms: Terms, **more: Any) -> NodeProcess:
        """Make the node process of this machine. more: of `make_node_process`."""
        more |= {"say": _say, "encrypted": self.encryption == "required"}
        node = make_node_process(self.own, terms, self.trust, **more)
        if node.own is not None:
            node.own.options = {each.target: each.names[-1] for each in OPTIONS.values()}
            node.own.plan = self.plan or node.own.plan
        return succession.introduce(node)


def run_together(prog: str, request: Request, terms: Terms) -> tuple[int, dict[str, Any] | None]:
    """Take part in the job; gives the exit code, and the result of the whole job if it is known.

    The result is `ANOTHERS` where another launcher prints it, and a `GroupEnd` of this machine's
    ranks where the host has not told how all ended.
    """
    terms = with_address(terms)
    plan: Plan | None = None
    encryption = request.engine.link_encryption if request.engine is not None else "auto"
    try:
        check(encryption)
        trust = find_trust(terms)
        # What all launchers refuse is refused before any of them waits for another one.
        own = share_of(request.spec, terms)
        if request.logs_specs:
            from procession.cli.logs_specs import make_specs, planned_by

            specs = make_specs(own, request.logs_specs, request.settings.where("logs_specs"))
            plan = partial(planned_by, specs)
        door = open_door(terms)
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    part = _Part(prog, request, trust, own, plan, encryption)
    if trust.note and terms.tells:
        say_note(trust.note)
    if door is None:
        # Where this one says nothing, another launcher says it on this console.
        waiting = HostSearch(terms, _say if terms.tells else lambda _: None, may_host=True)
        joined = _join(part, terms, waiting)
        if waiting.door is None:
            return joined
        door, terms = waiting.door, terms.__replace__(join=waiting.left)
        _say(f"this machine hosts the rendezvous now, at {terms.at}: its port is free [P419]")
    at = terms.__replace__(port=door.getsockname()[1], further=())
    with door:
        try:
            return _host(part, at, door, Succession(at, hosts=True))
        except SystemExit as e:  # it cannot begin, and the others need not wait for it
            if terms.starter:
                abort_others(os.environ, int(e.code or 0))
            raise


def _join(part: _Part, terms: Terms, waiting: HostSearch) -> tuple[int, Any]:
    """Be a launcher that does not host the rendezvous; gives what `run_together` gives.

    waiting: has a door after this if this launcher is to host the rendezvous after all.
    """
    request, note = part.request, part.trust.note
    wanted = {*request.signals, *request.notices, *request.forward}
    signals = [each for each in wanted if signal.getsignal(each) is not signal.SIG_IGN]
    ending = {*request.signals} - {*request.notices, *request.forward}
    more: dict[str, Any] = {"hosts": False, "signals": signals, "ending": ending}
    with Succession(terms) as succession:
        node = part.node(succession, terms, waiting=waiting, **more)
        while True:
            verdict = take_part(node, terms, part.own.name)
            if waiting.door is not None:
                return 0, None
            if not succession.goes_on(node):
                if verdict.said:
                    say_line(verdict.said)
                if verdict.said and not verdict.found and not terms.tells and note:
                    _say(note)  # perhaps the others trust each other by something else
                result = node.last_words.get("result") or _end_here(part.own, verdict)
                return verdict.code, result if terms.tells else ANOTHERS
            if node.joined:
                _say(f"{say_lost(node, terms)}; if enough nodes remain, they continue [P419]")
            elders = succession.elders
            if not elders:
                break
            terms = succession.terms_of_elders()
            also = [(elder.address, elder.port) for elder in elders[1:]]
            node = part.node(succession, terms, also=also, **more)
        terms, door = succession.take_over()
        _say(f"this machine hosts the rendezvous now, at {terms.at} [P419]")
        with door:
            return _host(part, terms, door, succession)


def _end_here(spec: Spec, verdict: JobVerdict) -> GroupEnd:
    """Give how the job ended for a launcher that has no last words of the host."""
    cause = not_started(verdict.said.removeprefix("procession: "))
    if verdict.found:
        cause = cause.__replace__(outcome=Outcome.NODE_LOST)
    return GroupEnd(spec.name, spec.nproc, failures=(cause,))


def _host(
    part: _Part, terms: Terms, door: socket.socket, succession: Succession
) -> tuple[int, Any]:
    """Host the rendezvous, and drive the job; gives what `run_together` gives.

    succession: has the will of the host before, if that is lost.
    """
    request = part.request
    signals: RunSignals
    result: dict[str, Any] = {}

    def last_words(end: GroupEnd) -> dict[str, Any]:
        said, code = ending(job, job.failure_of(end), signals.received)
        result.update(summary(job.spec, job.state, end, code, job.began))
        return {"said": said, "code": code, "result": result}

    whole = request.spec
    if request.logs_specs:  # files are where it says, on each machine
        whole = whole.__replace__(logs=Logs(prefix=whole.logs.prefix))
    node = part.node(succession, terms, hosts=True)
    job = made(
        part.prog,
        lambda: make_hosted_job(
            whole,
            terms,
            door,
            part.trust,
            node=node,
            last_words=last_words,
            elects=True,
            inherits=succession.will,
            link_encryption=part.encryption,
            control=os.environ.get(CONTROL) != "0",
        ),
    )
    signals = RunSignals(job, request, job.say)
    code = conduct_job(job, signals, request.status)
    spare = say_spare(node, part.own.name)
    if spare:
        say_line(spare)
    return code, {**result, "exit_code": code} if result else None
