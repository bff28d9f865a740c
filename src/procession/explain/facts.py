"""What an event says beside its kind and its time; docs/eventkinds.py has the table of it."""

from __future__ import annotations

import os

from procession.explain.ends import outcome_of
from procession.explain.records import RankRecord
from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import RankEvent
from procession.rules.tables import Ended, Worker, WorkerEvent
from procession.values.errors import Outcome, RankEnd
from procession.values.exit import Exit, signal_name
from procession.values.masking import masked_words
from procession.values.program import words_of
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Facts = dict[str, Any]

ENDED = {
    Ended.FINISHED: "finished",
    Ended.FAILED: "failed",
    Ended.STOPPED: "stopped",
    Ended.NEVER_STARTED: "stopped",
    Ended.LOST: "lost",
    None: "stopped",
}
OUTCOMES = {outcome: outcome.name.lower() for outcome in Outcome}


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


def facts_of_rank(
    spec: Spec, life: Lifecycle, event: RankEvent, record: RankRecord, stop_signal: int, lost: bool
) -> tuple[str, Facts]:
    """Give what the event of a rank says, in words and by name. lost: the forkserver is lost."""
    kind = event.kind
    if kind is WorkerEvent.STOP_SENT:
        return signal_name(stop_signal), {"signal": stop_signal}
    if kind is WorkerEvent.KILL_SENT:
        return "", {"signal": 9}
    if kind is WorkerEvent.HUNG:
        return record.hung, {}
    if kind is WorkerEvent.SPAWN_FAILED:
        stage, number, text = record.start_fault or ("start", 0, "it took too long")
        message = f"could not {stage}: {text}"
        facts: Facts = {"message": message, "errno": number} if number else {"message": message}
        return text if record.start_fault else "", facts
    if kind is WorkerEvent.REPORTED:
        error = str(record.description.get("type", ""))
        return error, {"ok": event.ok, "type": error} if error else {"ok": event.ok}
    if kind is WorkerEvent.EXITED:
        return str(record.exit), _exited(spec, life, record, lost)
    return "", {}


def _exited(spec: Spec, life: Lifecycle, record: RankRecord, lost: bool) -> Facts:
    rank = life.ranks[record.rank]
    starts_again = rank.state is Worker.PENDING  # it failed alone, and is expected once more
    facts: Facts = {
        "ended": "failed" if starts_again else ENDED[rank.ended],
        "outcome": OUTCOMES[outcome_of(spec, rank, record, lost)],
        **_exit(record.exit),
    }
    for name in ("cpu_seconds", "peak_memory", "out_of_memory"):
        value = getattr(record, name)
        if value is not None:
            facts[name] = value
    if starts_again or rank.failed_at is not None:
        described = record.description
        facts |= {
            n: str(described[n]) for n in ("type", "message", "traceback") if described.get(n)
        }
    return facts


def _exit(status: Exit) -> Facts:
    facts: Facts = {}
    if status.code is not None:
        facts["exit_code"] = status.code
    if status.signal is not None:
        facts |= {"signal": status.signal, "core": status.core}
    return facts
