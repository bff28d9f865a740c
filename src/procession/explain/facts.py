"""What an event says beside its kind and its time; docs/eventkinds.py has the table of it."""

from __future__ import annotations

import os

from procession.explain.ends import outcome_of
from procession.explain.records import RankRecord
from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import RankEvent
from procession.rules.tables import Ended, Worker, WorkerEvent
from procession.values.errors import RankEnd
from procession.values.events import NO_FACTS
from procession.values.exit import Exit, signal_name
from procession.values.masking import masked_words
from procession.values.program import words_of
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Facts = dict[str, Any]


def facts_of_start(spec: Spec, run_id: str) -> Facts:
    """Give what the event of an attempt that starts says."""
    return {
        "name": spec.name,
        "run": run_id,
        "program": type(spec.program).__name__.lower(),
        "words": masked_words(words_of(spec.program)),
        "nproc": spec.nproc,
        "node": spec.node.rank,
        "nodes": spec.node.count,
        "first": spec.node.first(spec.nproc),
        "restarts": spec.restart.max,
        "launcher": os.getpid(),
    }


def facts_of_failure(end: RankEnd, rank: int | None = None) -> Facts:
    """Give what the event of a failure says. end: of the rank that failed first. rank: its number
    in the job, where that is another one.
    """
    facts: Facts = {
        "failed_rank": end.rank if rank is None else rank,
        "outcome": end.outcome.name.lower(),
        "message": _message(end),
        **_exit(end.exit),
        "type": end.type_name,
        "traceback": end.traceback,
    }
    return {name: value for name, value in facts.items() if value != ""}


def _message(end: RankEnd) -> str:
    try:
        from procession.explain.report import what_happened
    except (ImportError, OSError):  # no descriptor is left to import with
        return end.outcome.value
    return what_happened(end)


def load_words(stacks: bool) -> None:
    """Import what says how a group failed, before it is needed. stacks: with where ranks were."""
    names = ("report", "stacks.merge", "stacks.text") if stacks else ("report",)
    try:
        for name in names:
            __import__(f"procession.explain.{name}")
    except (ImportError, OSError):
        pass  # no descriptor is left to import with


def facts_of_rank(
    spec: Spec, life: Lifecycle, event: RankEvent, record: RankRecord, stop_signal: int, lost: bool
) -> tuple[str, Facts]:
    """Give what the event of a rank says, in words and by name. lost: the agent is lost."""
    kind = event.kind
    if kind is WorkerEvent.EXITED:
        return str(record.exit), _exited(spec, life, record, lost)
    if kind is WorkerEvent.STOP_SENT:
        return signal_name(stop_signal), {"signal": stop_signal}
    if kind is WorkerEvent.KILL_SENT:
        return "", {"signal": 9}
    if kind is WorkerEvent.HUNG:
        return record.hung, NO_FACTS
    if kind is WorkerEvent.SPAWN_FAILED:
        stage, number, text = record.start_fault or ("start", 0, "it took too long")
        message = f"could not {stage}: {text}"
        facts: Facts = {"message": message, "errno": number} if number else {"message": message}
        return text if record.start_fault else "", facts
    if kind is WorkerEvent.REPORTED:
        error = str(record.description.get("type", ""))
        return error, {"ok": event.ok, "type": error} if error else {"ok": event.ok}
    return "", NO_FACTS


def _exited(spec: Spec, life: Lifecycle, record: RankRecord, lost: bool) -> Facts:
    rank = life.ranks[record.rank]
    starts_again = rank.state is Worker.PENDING  # it failed alone, and is expected once more
    ended = Ended.FAILED if starts_again else rank.ended
    if ended in (None, Ended.NEVER_STARTED):
        ended = Ended.STOPPED
    outcome = outcome_of(spec, rank, record, lost)
    facts: Facts = {"ended": ended.name.lower(), "outcome": outcome.name.lower()}
    facts.update(_exit(record.exit))
    used = {n: getattr(record, n) for n in ("cpu_seconds", "peak_memory", "out_of_memory")}
    facts.update({n: value for n, value in used.items() if value is not None})
    if starts_again or rank.failed_at is not None:
        described = record.description
        facts |= {
            n: str(described[n]) for n in ("type", "message", "traceback") if described.get(n)
        }
    return facts


def _exit(status: Exit) -> Facts:
    if status.signal is not None:
        return {"signal": status.signal, "core": status.core}
    return {} if status.code is None else {"exit_code": status.code}
