"""From what was seen of a group to how it ended: records of ranks become `GroupEnd`."""

from __future__ import annotations

import errno
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from procession.explain.records import Left, RankRecord
from procession.rules.lifecycle import Lifecycle, Rank
from procession.rules.tables import Ended
from procession.system.processes import describe
from procession.values.errors import GroupEnd, Outcome, RankEnd, StartFailed
from procession.values.exit import signal_name
from procession.values.program import Function
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.explain.stacks.text import Stack

# Stages of a start (see `RankRecord.start_fault`) in which the launcher makes what a rank gets.
OWN_STAGES = ("make its streams", "find an agent and a port")
LIMIT_HINTS = {
    errno.EAGAIN: "the limit of processes is reached: see ulimit -u",
    errno.ENOMEM: "memory is short",
    errno.EMFILE: "the limit of open files is reached: see ulimit -n",
    errno.ENFILE: "the whole machine has too many open files: see fs.file-max",
}
START_HINTS = {
    **LIMIT_HINTS,
    errno.ENOENT: "check the name of the program, its interpreter line (#!) and its directory",
    errno.ENOEXEC: "the file is executable but no program: is its first line (#!) missing?",
    errno.EACCES: "chmod +x the program, or name its interpreter",
}
HOOKED = 'if a hook of os.register_at_fork waits, use the start method "spawn"'
DEBUGGED = 'a debugger follows what is started here: set "subProcess": false in its configuration'
LACKS_MEMORY = ("MemoryError", "allocate memory", "bad_alloc", "Cannot allocate")
REPORTED = {
    "raised": Outcome.RAISED,
    "interrupted": Outcome.INTERRUPTED,
    "unpicklable": Outcome.UNPICKLABLE,
    "exit": Outcome.EXITED,
}  # by kind of failure
CODES = {"interrupted": 130}  # by kind of failure, for a report without a code; of other kinds 1


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
    end = GroupEnd(
        name=spec.name,
        nproc=spec.nproc,
        attempt=life.attempt,
        failures=(*(ends[r] for r in failures), *lost),
        ended=tuple(e for e in others if e.rank not in own),
        finished=tuple(finished),
        run_dir=run_dir,
        stacks=tuple(_lines_of(shown)),
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


def _lines_of(stacks: list[Stack]) -> list[str]:
    if not stacks:
        return []
    from procession.explain.stacks.text import lines_of, together

    return lines_of(together(stacks))


def has_failed(rank: Rank, record: RankRecord) -> bool:
    """Whether a rank failed by itself, or could not be ended."""
    return rank.failed_at is not None or _is_lost(rank, record)


def _is_lost(rank: Rank, record: RankRecord) -> bool:
    return rank.ended is Ended.LOST and not (record.pid is None and rank.start_failed)


def rank_end(
    spec: Spec,
    rank: Rank,
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
    announced = announced_by(rank, record)
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
        note=_note(spec, rank, record, left, outcome, announced) if failed else "",
    )


def _hung(record: RankRecord, stack: Stack | None) -> str:
    """Say why a rank was taken for hung, and where it was."""
    if stack is None:
        return record.hung
    from procession.explain.stacks.text import said_of

    return f"{record.hung}; it {said_of(stack)}"


def announced_by(rank: Rank, record: RankRecord) -> int | None:
    """Give the exit code that a rank reported, if it was then ended by a signal of ours."""
    described = record.description
    if not described or rank.stop_at is None or record.exit.signal is None:
        return None
    code = described.get("code")
    return code if isinstance(code, int) and code else CODES.get(str(described.get("kind")), 1)


def outcome_of(spec: Spec, rank: Rank, record: RankRecord, agent_lost: bool) -> Outcome:
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


def _lacked_memory(described: dict[str, Any]) -> bool:
    """Whether a rank reported that it was refused memory, as by a limit of its process."""
    said = f"{described.get('type')} {described.get('message')}"
    return any(word in said for word in LACKS_MEMORY)


def _note(
    spec: Spec,
    rank: Rank,
    record: RankRecord,
    left: Left,
    outcome: Outcome,
    announced: int | None,
) -> str:
    if outcome is Outcome.NOT_STARTED:
        return _start_hint(record)
    if outcome is Outcome.LOST and record.pid is not None:
        return f"its process {describe(record.pid)}"
    notes: list[str] = []
    if record.description.get("shared") and spec.shared is not None:
        from procession.values.shared import name_of  # it is there: it has checked the set-up

        notes.append(f"raised by the shared set-up {name_of(spec.shared)}, before the program")
    if record.refused:
        notes.append(record.refused)
    elif outcome is Outcome.NO_VALUE:
        notes.append("did it call os._exit or exec, or close its descriptors?")
    elif rank.reported_ok:
        notes.append(
            "its program had come to a good end; it failed afterwards, in an exit handler or thread"
        )
    elif outcome is Outcome.TORN_VALUE:
        how = signal_name(record.exit.signal) if record.exit.signal else str(record.exit)
        notes.append(f"it ended ({how}) before its value had arrived in full")
    elif announced is not None and record.exit.signal is not None:
        notes.append(
            f"it did not exit then; the group ended it by {signal_name(record.exit.signal)}"
        )
    children = _children(record, outcome)
    if children:
        notes.append(children)
    if left.ignored:
        notes.append(f"its error file was ignored: {left.ignored}")
    described, limit = record.description, spec.placement.memory_bytes
    if limit is not None and (record.over_limit or _lacked_memory(described)):
        from procession.values.figures import size

        notes.append(f"its memory limit is {size(limit)}")
    if described.get("errno") == errno.ENOSPC or left.disk_full:
        log = left.stdout_log or left.stderr_log
        where = f" of {log}" if log else ""
        notes.append(f"no space is left on the disk{where}")
    return "; ".join(notes)


def _children(record: RankRecord, outcome: Outcome) -> str:
    """Say which children of a rank a signal has ended, and why that may be."""
    said = record.description.get("children", "")
    if record.child_killed and record.out_of_memory:
        said = f"{said or 'a process of its pool was killed'}, likely out of memory"
    elif said and record.child_killed and record.out_of_memory is False:
        said += " (the kernel reports no out-of-memory kill)"
    elif outcome is Outcome.SIGNALLED and record.exit.signal == signal.SIGBUS:
        from procession.worker.description import shared_memory

        return "".join(shared_memory())
    return said


def _start_hint(record: RankRecord) -> str:
    if record.start_fault is None:
        debugged = "pydevd" in sys.modules
        return f"it did not reach its program in time: {DEBUGGED if debugged else HOOKED}"
    stage, number, _ = record.start_fault
    return (LIMIT_HINTS if stage in OWN_STAGES else START_HINTS).get(number, "")


def not_started(message: str, note: str = "") -> RankEnd:
    """Give the end of rank 0, where no rank could be started. message: why, in words."""
    at = time.monotonic_ns()
    return RankEnd(0, None, Outcome.NOT_STARTED, message=message, happened_at=at, note=note)


def none_started(why: str, note: str = "") -> RankEnd:
    """The same, where the reason is one of the whole group or job."""
    return not_started(f"could not be started, nor any other rank: {why}", note)


def start_failed(spec: Spec, e: OSError) -> StartFailed:
    """Give the failure of a group of which nothing could be started."""
    cause = none_started(e.strerror or str(e), START_HINTS.get(e.errno or 0, ""))
    end = placed_in_job(GroupEnd(spec.name, spec.nproc, failures=(cause,)), spec)
    return StartFailed(end, harmless_report(end))


def harmless_report(end: GroupEnd) -> str:
    """Write the report, with whatever ranks wrote made harmless for a terminal."""
    from procession.explain.report import format_report
    from procession.output.escape import harmless_text

    return harmless_text(format_report(end))
