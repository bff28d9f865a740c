"""`procession.run(..., rendezvous=)`: a program that was started on each machine runs one job.

The program on the machine that hosts the rendezvous drives the job, as the command does; the others
take part. Each gets the values of its own ranks: nothing that came from the network is unpickled.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from typing import Any

from procession.api.jobs import checked_lease, make_hosted_job, share_of
from procession.driver.driver import MARGIN
from procession.engines.contract import EngineError
from procession.engines.nodeprocess import NodeProcess
from procession.engines.plain import group_end, plain_group
from procession.engines.rendezvous.hosting import open_door
from procession.engines.rendezvous.member import HostSearch, make_node_process, say_spare, take_part
from procession.engines.rendezvous.secret import find_trust
from procession.engines.rendezvous.terms import Terms, read_endpoint, read_machines, terms_of_conf
from procession.engines.tunnel import check
from procession.explain.ends import failed_by
from procession.explain.summary import report_of
from procession.group.group import Group
from procession.group.result import StillRuns
from procession.prepare.results import value_of
from procession.rules.tables import Phase
from procession.system.threads import Latch
from procession.values.base import cast
from procession.values.errors import GroupEnd, GroupFailed, GroupStopped, SpecError
from procession.values.spec import Spec, make_spec

HERE = 'rendezvous={"endpoint": "HOST:PORT"}'


def run_together(
    program: Any,
    *,
    rendezvous: str | Mapping[str, Any],
    nnodes: int | str | None,
    timeout: float | None,
    lease: float | None,
    link_encryption: str | None,
    devices: str | None,
    on_event: Any,
    control: bool | None,
    **given: Any,
) -> list[Any]:
    """Take part in the job to its end; see `procession.run`. Gives the values of this machine."""
    terms = read_terms(rendezvous, nnodes)
    if lease is not None:
        terms = terms.__replace__(lease=checked_lease(lease))
    check(link_encryption or "auto")
    spec = make_spec(program, **given)
    if spec.shared is not None or spec.warm is not None:
        raise SpecError("shared and warm are for the ranks of one machine")
    if devices:
        from procession.devices import deal

        spec = deal(spec, devices)
    trust = find_trust(terms)
    if trust.note:
        _warn(trust.note)
    own, door = share_of(spec, terms), open_door(terms)
    job: Group

    if door is None:
        waiting = HostSearch(terms, _warn, may_host=True)
        more: dict[str, Any] = {"waiting": waiting, "encrypted": link_encryption == "required"}
        node = make_node_process(own, terms, trust, hosts=False, say=_warn, **more)
        values = _join(node, terms, own, timeout, waiting)
        if waiting.door is None:
            return values
        door, terms = waiting.door, terms.__replace__(join=waiting.left)
    node = make_node_process(own, terms, trust, hosts=True, say=_warn)
    job = make_hosted_job(
        spec,
        terms,
        door,
        trust,
        node=node,
        last_words=lambda end: _last_words(job, end),
        link_encryption=link_encryption or "auto",
        on_failure=spec.on_failure,
        on_event=on_event,
        control=control,
    )
    job.start()
    try:
        with job, contextlib.suppress(GroupFailed):  # it is raised below, as on other machines
            job.wait(timeout)
    except StillRuns:
        raise TimeoutError(_too_long(own, timeout)) from None
    return _outcome(node, own, _last_words(job, job.end) if job.end is not None else {})


def read_terms(rendezvous: str | Mapping[str, Any], nnodes: int | str | None) -> Terms:
    """Read the parameters. Raises SpecError."""
    if not isinstance(cast(object, rendezvous), str | Mapping):
        raise SpecError(f"rendezvous must be 'HOST:PORT' or {HERE}, not {rendezvous!r}")
    said = {"endpoint": rendezvous} if isinstance(rendezvous, str) else dict(rendezvous)
    endpoint, run_id = said.pop("endpoint", ""), said.pop("id", "none")
    local_addr = said.pop("local_addr", "")
    if not isinstance(endpoint, str) or not isinstance(run_id, str) or not run_id:
        raise SpecError(f"rendezvous must be 'HOST:PORT' or {HERE}, not {rendezvous!r}")
    host, port = read_endpoint(endpoint, "rendezvous")
    least, most = read_machines(str(nnodes), "nnodes")
    conf = {name: str(int(v) if v in (True, False) else v) for name, v in said.items()}
    fields = terms_of_conf(conf, "rendezvous", static=False)
    return Terms(host, port, run_id, least, most, local_addr=str(local_addr), **fields)


def _join(
    node: NodeProcess, terms: Terms, own: Spec, timeout: float | None, waiting: HostSearch
) -> list[Any]:
    """Take part in a job that another machine hosts, unless this one is to host it after all."""
    found: list[Any] = []

    ended = Latch()

    def work() -> None:
        try:
            found.append(take_part(node, terms, own.name))
        finally:
            ended.set()

    threading.Thread(target=work, name="procession-node", daemon=True).start()
    try:
        if not ended.wait(timeout):
            raise TimeoutError(_too_long(own, timeout))
    except (TimeoutError, KeyboardInterrupt):
        node.stop_job()
        stop = own.stop
        ended.wait(stop.notice + stop.grace + stop.reap + MARGIN)
        raise
    finally:
        if not ended.is_set():
            node.let_go()
            ended.wait(None)
    if waiting.door is not None:
        return []
    (verdict,) = found
    if not {"end", "stopped"} & {*node.last_words} and (verdict.code or not verdict.found):
        raise EngineError(verdict.said.removeprefix("procession: "))
    return _outcome(node, own, node.last_words)


def _last_words(job: Group, end: GroupEnd) -> dict[str, Any]:
    """Give what the programs on other machines are told."""
    if end.failures:
        return {"said": "it failed", "code": 1, "end": plain_group(end)}
    if job.state is Phase.STOPPED:
        # It may also have been the program here that hosts it, by a timeout of its own.
        by = job.who_stopped or "the program that hosts the rendezvous"
        said = {"stopped": plain_group(end), "stopper": by}
        return {"said": f"it was stopped by {by}", "code": 1, **said}
    return {"said": "", "code": 0}


def _outcome(node: NodeProcess, own: Spec, words: Mapping[str, Any]) -> list[Any]:
    """Give the values of this machine's ranks, or raise what the last words of the driver say."""
    if "end" in words:
        first, errors = (node.own.first, node.own.errors) if node.own is not None else (0, {})
        raise failed_by(group_end(words["end"]), own.program, lambda rank: errors.get(rank - first))
    if "stopped" in words:
        end = group_end(words["stopped"])
        report = report_of(Phase.STOPPED, end, str(words.get("stopper", "")))
        raise GroupStopped(end, report, _values(node, own))
    return _values(node, own)


def _values(node: NodeProcess, own: Spec) -> list[Any]:
    """Give the values of this machine's ranks; none where it was not needed."""
    if spare := say_spare(node, own.name):
        _warn(spare.removeprefix("procession: "))
        return []
    sent = node.own.values if node.own is not None else {}
    return [value_of(own.program, sent[n]) if n in sent else None for n in range(own.nproc)]


def _too_long(own: Spec, timeout: float | None) -> str:
    return f"{own.name} was stopped: it had not ended after {timeout:g} s"


def _warn(text: str) -> None:
    logging.getLogger("procession").warning("procession: %s", text)
