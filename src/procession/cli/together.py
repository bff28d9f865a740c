"""`procession run` where one launcher is started on each machine, and they find each other."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from procession.cli.engine_request import EngineRequest
from procession.cli.job import conducted
from procession.cli.jobsignals import JobSignals
from procession.cli.request import Request
from procession.cli.say import refuse, say_line
from procession.engines.contract import EngineError
from procession.engines.job import Job
from procession.engines.rendezvous.host import make_hosted_job, share_of
from procession.engines.rendezvous.hosting import open_door
from procession.engines.rendezvous.member import Verdict, make_agent, say_spare, take_part
from procession.engines.rendezvous.secret import link_key, say_who_may_join, take_secret
from procession.engines.rendezvous.terms import Terms
from procession.group.handle import CONTROL
from procession.rules.tables import Phase
from procession.values.errors import GroupEnd, SpecError
from procession.values.events import Event

OnEvent = Callable[[Event], object]


def run_together(
    prog: str, request: Request, on: EngineRequest, on_event: OnEvent | None
) -> tuple[int, Job | None]:
    """Take part in the job; gives the exit code, and the job if this launcher hosts it."""
    terms = on.terms
    assert terms is not None
    try:
        secret = take_secret(terms)
        key = link_key(secret, terms.run_id)
        door = open_door(terms)
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    note = say_who_may_join(secret, terms)
    if note:
        say_line(f"procession: {note}")
    if door is None:
        return _join(prog, request, terms, key), None
    return _host(prog, request, on, terms, door, key, on_event)


def _say(text: str) -> None:
    say_line(f"procession: {text}", 0.0)


def _join(prog: str, request: Request, terms: Terms, key: bytes) -> int:
    """Be a launcher that does not host the rendezvous; gives the exit code."""
    try:
        spec = share_of(request.spec, terms)
    except SpecError as e:
        refuse(prog, str(e))
    signals = [
        number
        for number in {*request.signals, *request.notices, *request.forward}
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    agent = make_agent(spec, terms, key, hosts=False, signals=signals, say=_say)
    verdict = take_part(agent, terms, spec.name)
    _tell(verdict)
    return verdict.code


def _tell(verdict: Verdict) -> None:
    if verdict.said:
        say_line(verdict.said)


def _host(
    prog: str,
    request: Request,
    on: EngineRequest,
    terms: Terms,
    door: socket.socket,
    key: bytes,
    on_event: OnEvent | None,
) -> tuple[int, Job]:
    """Host the rendezvous, and drive the job; gives the exit code, and the job."""
    signals: JobSignals

    def last_words(end: GroupEnd) -> dict[str, Any]:
        return _words_for_others(job, end, signals.received)

    try:
        spec = share_of(request.spec, terms)
        agent = make_agent(spec, terms, key, hosts=True, say=_say)
        job = make_hosted_job(
            request.spec,
            terms,
            door,
            key,
            agent=agent,
            last_words=last_words,
            link_encryption=on.link_encryption,
            on_failure=request.spec.on_failure,
            on_event=on_event,
            control=os.environ.get(CONTROL) != "0",
        )
    except (SpecError, EngineError) as e:
        refuse(prog, str(e))
    except OSError as e:
        refuse(prog, f"cannot prepare the run: {e}")
    signals = JobSignals(job, request.signals, request.notices, request.forward, repeated=False)
    code = conducted(job, signals)
    spare = say_spare(agent, spec.name)
    if spare:
        say_line(spare)
    return code, job


def _words_for_others(job: Job, end: GroupEnd, received: list[int]) -> dict[str, Any]:
    """Give what the other launchers print, and exit with."""
    failed = job.failure_of(end)
    if failed is not None:
        return {"said": str(failed), "code": failed.exit_code}
    name, stopped = job.spec.name, job.state is Phase.STOPPED
    number = received[0] if received else job.stopped_by if stopped else 0
    if number:
        how = "was stopped by" if stopped else "had done its work before"
        return {
            "said": f"procession: {name} {how} {signal.Signals(number).name}",
            "code": 128 + number,
        }
    return {"said": "", "code": 1 if stopped else 0}
