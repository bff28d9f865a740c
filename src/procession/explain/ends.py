"""From what was seen of a group to how it ended: as `GroupEnd`, in events, and as exceptions.

The words for it are in `report`, which is loaded when a group fails, or soon after it has begun.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from procession.explain.records import Left, RankRecord
from procession.rules.lifecycle import Lifecycle, RankState
from procession.rules.messages import RankEvent
from procession.rules.tables import Ended, Worker, WorkerEvent
from procession.values.errors import (
    Exit,
    GroupEnd,
    GroupFailed,
    Outcome,
    RankEnd,
    StartFailed,
    signal_name,
)
from procession.values.events import NO_FACTS
from procession.values.masking import masked_words
from procession.values.program import Function, Program, words_of
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.explain.stacks.text import Stack

    Facts = dict[str, Any]

REPORTED = {
    "raised": Outcome.RAISED,
    "interrupted": Outcome.INTERRUPTED,
    "unpicklable": Outcome.UNPICKLABLE,
    "exit": Outcome.EXITED,
}  # by kind of failure


def group_end(
    spec: Spec,
    life: Lifecycle,
    ends: Sequence[RankEnd],
    notes: Sequence[str],
    run_dir: str,
    stacks: Mapping[int, Stack],
    stacks_file: str,
) -> GroupEnd:
    """Sort the ranks by how they ended, the failures by when they happened.

    ends: by rank. stacks: where ranks were when the group failed, by rank; stacks_file: their file.
    """
    failures = life.failures
    others = [e for e in ends if life.ranks[e.rank].failed_at is None]
    lost = [e for e in others if e.outcome is Outcome.LOST]
    finished = [e for e in others if life.ranks[e.rank].ended is Ended.FINISHED]
    own = {e.rank for e in (*lost, *finished)}
    shown = [s for r, s in stacks.items() if r not in failures or ends[r].outcome is Outcome.HUNG]
    hung = [s.rank for r, s in stacks.items() if ends[r].outcome is Outcome.HUNG]
    end = GroupEnd(
        name=spec.name,
        nproc=spec.nproc,
        attempt=life.attempt,
        failures=(*(ends[r] for r in failures), *lost),
        ended=tuple(e for e in others if e.rank not in own),
        finished=tuple(finished),
        run_dir=run_dir,
        stacks=tuple(lines_of(shown, hung)),
        stacks_file=stacks_file,
        notes=tuple(notes),
    )
    return placed_in_job(end, spec)


def placed_in_job(end: GroupEnd, spec: Spec) -> GroupEnd:
    """Add where the group's ranks stand in the whole job."""
    return end.__replace__(
        node=spec.node.rank,
        nodes=spec.node.count,
        first=spec.node.first(spec.nproc),
        world=spec.node.size(spec.nproc),
    )


def lines_of(stacks: Sequence[Stack], first: Sequence[int] = ()) -> list[str]:
    """Say where ranks are, one line for those that are at the same place. first: whose comes so."""
    if not stacks:
        return []
    from procession.explain.stacks import text

    return text.lines_of(text.with_first(text.together(stacks), first))


def has_failed(rank: RankState, record: RankRecord) -> bool:
    """Whether a rank failed by itself, or could not be ended."""
    return rank.failed_at is not None or _is_lost(rank, record)


def _is_lost(rank: RankState, record: RankRecord) -> bool:
    return rank.ended is Ended.LOST and not (record.pid is None and rank.start_failed)


def rank_end(
    spec: Spec,
    rank: RankState,
    record: RankRecord,
    left: Left,
    *,
    agent_lost: bool = False,
    failed: bool = False,
    stack: Stack | None = None,
) -> RankEnd:
    """Say how one rank ended.

    left: what it left in files. failed: it has failed, though `rank` does not say so yet. stack:
    where it was when its group failed.
    """
    described = record.description
    outcome = outcome_of(spec, rank, record, agent_lost)
    failed = failed or has_failed(rank, record)
    traceback = str(described.get("traceback", ""))
    message = str(described.get("message", ""))
    if failed and not traceback:
        traceback = left.traceback
        message = message or (traceback.strip().splitlines() or [""])[-1]
    if record.start_fault is not None:
        message = f"could not {record.start_fault[0]}: {record.start_fault[2]}"
    if outcome is Outcome.HUNG:
        message = _hung(record, stack)
    announced, note = announced_by(rank, record), ""
    if failed and load_words():
        from procession.explain.report import remark_on

        note = remark_on(spec, rank, record, left, outcome, announced)
    happened = rank.failed_at or record.exited_at
    reported = happened != record.exited_at
    return RankEnd(
        rank=record.rank,
        pid=record.pid,
        outcome=outcome,
        exit=record.exit,
        announced=announced,
        sent=tuple(record.signals),
        type_name=str(described.get("type", "")),
        message=message,
        traceback=traceback,
        started_at=record.started_at,
        happened_at=happened,
        doubt=0 if reported else record.doubt,
        seconds=max(0, happened - record.started_at) / 1e9 if record.started_at else 0.0,
        peak_memory=record.peak_memory,
        cpu_seconds=record.cpu_seconds,
        stderr_tail=left.stderr_tail,
        stdout_log=left.stdout_log,
        stderr_log=left.stderr_log,
        error_file=left.error_file,
        out_of_memory=record.out_of_memory,
        note=note,
        unshown=record.unshown,
        unshown_errors=record.unshown_errors,
    )


def _hung(record: RankRecord, stack: Stack | None) -> str:
    """Say why a rank was taken for hung, and where it was."""
    if stack is None:
        return record.hung
    from procession.explain.stacks.text import said_of

    return f"{record.hung}; it {said_of(stack)}"


def announced_by(rank: RankState, record: RankRecord) -> int | None:
    """Give the exit code that a rank reported, if it was then ended by a signal of ours."""
    described = record.description
    if not described or rank.stop_at is None or record.exit.signal is None:
        return None
    code = described.get("code")
    without = 130 if described.get("kind") == "interrupted" else 1
    return code if isinstance(code, int) and code else without


def outcome_of(spec: Spec, rank: RankState, record: RankRecord, agent_lost: bool) -> Outcome:
    """Say how a rank ended, or UNKNOWN."""
    if _is_lost(rank, record):
        return Outcome.LOST
    if record.start_fault is not None or (rank.start_failed and rank.failed_at is not None):
        return Outcome.NOT_STARTED
    if record.hung:
        return Outcome.HUNG
    if rank.ended is Ended.NEVER_STARTED:
        return Outcome.CANCELLED
    kind = REPORTED.get(record.description.get("kind", ""))
    if kind is not None:
        return kind
    is_function = isinstance(spec.program, Function)
    if record.torn and is_function and rank.stop_at is None:
        return Outcome.TORN_VALUE
    if record.exit.signal is not None:
        return Outcome.SIGNALLED
    if record.exit.code is None or (agent_lost and is_function and record.report is None):
        return Outcome.ORPHANED if agent_lost else Outcome.UNKNOWN
    if not is_function or record.exit.code != 0:
        return Outcome.EXITED
    return Outcome.RETURNED if record.report is not None else Outcome.NO_VALUE


# -- as facts of events; docs/eventkinds.py has the table of it


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


def facts_of_failure(end: RankEnd) -> Facts:
    """Give what the event of a failure says. end: of the rank that failed first."""
    facts: Facts = {
        "failed_rank": end.rank,
        "outcome": end.outcome.name.lower(),
        "message": _message(end),
        **_exit(end.exit),
        "type": end.type_name,
        "traceback": end.traceback,
    }
    return {name: value for name, value in facts.items() if value != ""}


def facts_of_stop(stacks: Sequence[str]) -> Facts:
    """Give what the event of a stop says. stacks: where ranks were before it."""
    return {"stacks": [*stacks]} if stacks else {}


def _message(end: RankEnd) -> str:
    if not load_words():
        return end.outcome.value
    from procession.explain.report import what_happened

    return what_happened(end)


def load_words(*, stacks: bool = False) -> bool:
    """Import what says how a group failed; False if no descriptor is left to import with.

    stacks: with where ranks were.
    """
    names = ("report", "stacks.merge", "stacks.text") if stacks else ("report",)
    try:
        for name in names:
            __import__(f"procession.explain.{name}")
    except (ImportError, OSError):
        return False
    return True


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


# -- as failures


def not_started(message: str, note: str = "") -> RankEnd:
    """Give the end of rank 0, where no rank could be started. message: why, in words."""
    at = time.monotonic_ns()
    return RankEnd(0, None, Outcome.NOT_STARTED, message=message, happened_at=at, note=note)


def none_started(why: str, note: str = "") -> RankEnd:
    """The same, where the reason is one of the whole group or job."""
    return not_started(f"could not be started, nor any other rank: {why}", note)


def start_failed(spec: Spec, e: OSError) -> StartFailed:
    """Give the failure of a group of which nothing could be started."""
    from procession.explain.report import START_HINTS, format_report

    cause = none_started(e.strerror or str(e), START_HINTS.get(e.errno or 0, ""))
    end = placed_in_job(GroupEnd(spec.name, spec.nproc, failures=(cause,)), spec)
    return StartFailed(end, format_report(end))


def failed_by(
    end: GroupEnd, program: Program, error_of: Callable[[int], dict[str, Any] | None]
) -> GroupFailed:
    """Give the exception for a run that failed.

    error_of: gives what a rank sent about its failure, as `exception_of` reads it, or None.
    """
    from procession.explain.report import format_report

    first = end.failures[0]
    kind = StartFailed if first.outcome is Outcome.NOT_STARTED else GroupFailed
    failed = kind(end, format_report(end))
    sent = error_of(first.rank)
    if sent is not None:
        from procession.prepare.results import exception_of

        failed.__cause__ = exception_of(program, sent)
    return failed
