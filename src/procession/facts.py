"""What an event tells beside its kind and its time; `eventkinds` has the table of it."""

from __future__ import annotations

import os

from procession.ends import RankRecord, outcome_of, rank_end
from procession.errors import Outcome, RankEnd
from procession.exit import Exit
from procession.lifecycle import Ended, Lifecycle, Phase, RankEvent, Worker, WorkerEvent
from procession.output.rundir import masked_words
from procession.spawner import Spawner
from procession.spec import Spec, words_of

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


def facts_of_group(
    spec: Spec, life: Lifecycle, records: list[RankRecord], spawner: Spawner, lost: bool
) -> Facts:
    """Give what the event of the group's present phase tells. lost: whether the forkserver is."""
    if life.phase is Phase.STARTING:
        return {
            "name": spec.name,
            "run": spawner.run_id,
            "program": type(spec.program).__name__.lower(),
            "words": masked_words(words_of(spec.program)),
            "nproc": spec.nproc,
            "node": spec.node.rank,
            "nodes": spec.node.count,
            "first": spec.node.first(spec.nproc),
            "restarts": spec.restart.max,
            "launcher": os.getpid(),
        }
    if life.phase is Phase.FAILED:
        return _failure(spec, life, records, spawner, lost)
    return {}


def _failure(
    spec: Spec, life: Lifecycle, records: list[RankRecord], spawner: Spawner, lost: bool
) -> Facts:
    gone = [rank for rank, known in enumerate(life.ranks) if known.ended is Ended.LOST]
    first = (*life.failures, *gone)[0]
    end = rank_end(spec, life, records[first], spawner, lost)
    facts: Facts = {
        "failed_rank": first,
        "outcome": end.outcome.name.lower(),
        "message": _said(end),
        **_exit(end.exit),
        "type": end.type_name,
        "traceback": end.traceback,
    }
    return {name: value for name, value in facts.items() if value != ""}


def _said(end: RankEnd) -> str:
    try:
        from procession.report import what_happened
    except (ImportError, OSError):  # no descriptor is left to import with
        return end.outcome.value
    return what_happened(end)


def facts_of_rank(
    spec: Spec, life: Lifecycle, event: RankEvent, record: RankRecord, stop_signal: int, lost: bool
) -> Facts:
    """Give what the event of a rank tells."""
    kind = event.kind
    if kind is WorkerEvent.STOP_SENT:
        return {"signal": stop_signal}
    if kind is WorkerEvent.KILL_SENT:
        return {"signal": 9}
    if kind is WorkerEvent.SPAWN_FAILED:
        stage, number, text = record.start_fault or ("start", 0, "it took too long")
        message = f"could not {stage}: {text}"
        return {"message": message, "errno": number} if number else {"message": message}
    told: dict[str, Any] = record.told.record if record.told is not None else {}
    error = str(told.get("type", ""))
    if kind is WorkerEvent.REPORTED:
        return {"ok": event.ok, "type": error} if error else {"ok": event.ok}
    if kind is WorkerEvent.EXITED:
        return _exited(spec, life, record, told, lost)
    return {}


def _starts_again(life: Lifecycle, rank: int) -> bool:
    """Whether a rank that is gone failed alone, and is expected once more."""
    return life.ranks[rank].state is Worker.PENDING


def _exited(
    spec: Spec, life: Lifecycle, record: RankRecord, told: dict[str, Any], lost: bool
) -> Facts:
    rank = life.ranks[record.rank]
    outcome: Outcome = outcome_of(spec, rank, record, told, lost)
    alone = _starts_again(life, record.rank)
    facts: Facts = {
        "ended": "failed" if alone else ENDED[rank.ended],
        "outcome": outcome.name.lower(),
        **_exit(record.exit),
        "cpu_seconds": record.cpu_seconds,
        "peak_memory": record.peak_memory,
        "out_of_memory": record.out_of_memory,
    }
    if alone or rank.failed_at is not None:
        facts |= {n: str(told[n]) for n in ("type", "message", "traceback") if told.get(n)}
    return {name: value for name, value in facts.items() if value is not None}


def _exit(status: Exit) -> Facts:
    facts: Facts = {}
    if status.code is not None:
        facts["exit_code"] = status.code
    if status.signal is not None:
        facts |= {"signal": status.signal, "core": status.core}
    return facts
