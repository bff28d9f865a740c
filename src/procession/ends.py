"""From what was seen of a group to how it ended: records of ranks become `GroupEnd`."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence

from procession.errors import GroupEnd, Outcome, RankEnd, StartFailed
from procession.exit import UNKNOWN_EXIT, Exit, signal_name
from procession.lifecycle import Ended, Lifecycle, Rank
from procession.output.rundir import disk_is_full, read_error_file
from procession.results import ResultReader, Told
from procession.spawner import Spawner
from procession.spec import Function, Spec
from procession.system.procstate import describe
from procession.values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.stacks.text import Stack

START_HINTS = {
    errno.ENOENT: "check the name of the program, its interpreter line (#!) and its directory",
    errno.ENOEXEC: "the file is executable but no program: is its first line (#!) missing?",
    errno.EAGAIN: "the limit of processes is reached: see ulimit -u",
    errno.ENOMEM: "memory is short",
    errno.EACCES: "chmod +x the program, or name its interpreter",
    errno.EMFILE: "the limit of open files is reached: see ulimit -n",
    errno.ENFILE: "the whole machine has too many open files: see fs.file-max",
}
LACKS_MEMORY = ("MemoryError", "allocate memory", "bad_alloc", "Cannot allocate")
CODES = {"interrupted": 130}  # of a kind of failure, where it was not told; else 1


class Silence(Record):
    """When a result pipe ended without a word: between `after` and `until`; `seen`: when we saw."""

    after: int
    until: int
    seen: int


class RankRecord(Record):
    """What the supervisor has seen of a rank in this attempt; -1, None and 0: nothing yet."""

    rank: int
    attempt: int = 0  # which life of it this is
    pid: int | None = None
    pidfd: int = -1
    asked: bool = False
    reader: ResultReader | None = None
    told: Told | None = None
    torn: bool = False
    silent: Silence | None = None
    signals: frozenset[int] = frozenset()  # that we sent
    hung: str = ""  # why it was taken for hung
    exit: Exit = UNKNOWN_EXIT
    start_fault: tuple[str, int, str] | None = None  # stage, errno, text
    started_at: int = 0
    exited_at: int = 0
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    out_of_memory: bool | None = None
    over_limit: bool = False  # the kernel killed it at its own limit of memory


def group_end(
    spec: Spec,
    life: Lifecycle,
    records: list[RankRecord],
    spawner: Spawner,
    notes: tuple[str, ...],
    forkserver_lost: bool,
    stacks: Sequence[Stack] = (),
    stacks_file: str = "",
) -> GroupEnd:
    """Sort the ranks by how they ended, the failures by when they happened.

    stacks: of ranks, by their numbers in the whole job, when it failed; stacks_file: their file.
    """
    first = spec.node.first(spec.nproc)
    at = {stack.rank - first: stack for stack in stacks}
    ends = [rank_end(spec, life, r, spawner, forkserver_lost, at.get(r.rank)) for r in records]
    failures = life.failures
    others = [e for e in ends if life.ranks[e.rank].failed_at is None]
    lost = [e for e in others if e.outcome is Outcome.LOST]
    finished = [e for e in others if life.ranks[e.rank].ended is Ended.FINISHED]
    own = {e.rank for e in (*lost, *finished)}
    shown = [s for r, s in at.items() if r not in failures or ends[r].outcome is Outcome.HUNG]
    return GroupEnd(
        name=spec.name,
        nproc=spec.nproc,
        attempt=life.attempt,
        failures=(*(ends[r] for r in failures), *lost),
        ended=tuple(e for e in others if e.rank not in own),
        finished=tuple(finished),
        run_dir=spawner.run_dir.path if spawner.run_dir.kept else "",
        stacks=tuple(_lines_of(shown)),
        stacks_file=stacks_file,
        notes=notes,
        node=spec.node.rank,
        nodes=spec.node.count,
        first=spec.node.first(spec.nproc),
        world=spec.node.size(spec.nproc),
    )


def _lines_of(stacks: list[Stack]) -> list[str]:
    if not stacks:
        return []
    from procession.stacks.merge import lines_of

    return lines_of(stacks)


def rank_end(
    spec: Spec,
    life: Lifecycle,
    record: RankRecord,
    spawner: Spawner,
    forkserver_lost: bool,
    stack: Stack | None = None,
    *,
    failed: bool = False,
) -> RankEnd:
    """Say how one rank ended.

    stack: where it was when its group failed. failed: it has, though its lifecycle does not say so
    yet.
    """
    rank = life.ranks[record.rank]
    told: dict[str, Any] = record.told.record if record.told is not None else {}
    outcome = outcome_of(spec, rank, record, told, forkserver_lost)
    failed = failed or rank.failed_at is not None or outcome is Outcome.LOST
    out, err = spawner.streams.log_paths(record.attempt, record.rank)
    traceback = str(told.get("traceback", ""))
    message = str(told.get("message", ""))
    error_file = spawner.run_dir.error_file(record.attempt, record.rank)
    if failed and not traceback:
        traceback = read_error_file(error_file)
        message = message or (traceback.strip().splitlines() or [""])[-1]
    if record.start_fault is not None:
        message = f"could not {record.start_fault[0]}: {record.start_fault[2]}"
    if outcome is Outcome.HUNG:
        message = _hung(record, stack)
    announced = _announced(rank, record, told)
    happened = rank.failed_at or record.exited_at
    return RankEnd(
        rank=record.rank,
        pid=record.pid,
        outcome=outcome,
        exit=record.exit,
        announced=announced,
        sent=tuple(record.signals),
        type_name=str(told.get("type", "")),
        message=message,
        traceback=traceback,
        started_at=record.started_at,
        happened_at=happened,
        seconds=max(0, happened - record.started_at) / 1e9 if record.started_at else 0.0,
        peak_memory=record.peak_memory,
        cpu_seconds=record.cpu_seconds,
        stderr_tail=spawner.streams.stderr_tail(record.attempt, record.rank) if failed else (),
        stdout_log=out,
        stderr_log=err,
        error_file=error_file if spawner.run_dir.kept and os.path.exists(error_file) else "",
        out_of_memory=record.out_of_memory,
        note=_note(spec, rank, record, told, out or err, outcome, announced) if failed else "",
    )


def _hung(record: RankRecord, stack: Stack | None) -> str:
    """Say why a rank was taken for hung, and where it was."""
    if stack is None:
        return record.hung
    from procession.stacks.merge import said_of

    return f"{record.hung}; it {said_of(stack)}"


def _announced(rank: Rank, record: RankRecord, told: dict[str, Any]) -> int | None:
    """Give the exit code that a rank told, where what the kernel tells is our own signal."""
    if not told or rank.stop_at is None or record.exit.signal is None:
        return None
    code = told.get("code")
    return code if isinstance(code, int) and code else CODES.get(str(told.get("kind")), 1)


def outcome_of(
    spec: Spec, rank: Rank, record: RankRecord, told: dict[str, Any], forkserver_lost: bool
) -> Outcome:
    """Say how a rank ended, or UNKNOWN."""
    never_was = record.pid is None and rank.start_failed
    if rank.ended is Ended.LOST and not never_was:
        return Outcome.LOST
    if record.start_fault is not None or (rank.start_failed and rank.failed_at is not None):
        return Outcome.NOT_STARTED
    if record.hung:
        return Outcome.HUNG
    if rank.ended is Ended.NEVER_STARTED:
        return Outcome.CANCELLED
    kinds = {
        "raised": Outcome.RAISED,
        "interrupted": Outcome.INTERRUPTED,
        "unpicklable": Outcome.UNPICKLABLE,
        "exit": Outcome.EXITED,
    }
    if told.get("kind") in kinds:
        return kinds[told["kind"]]
    is_function = isinstance(spec.program, Function)
    if record.torn and is_function and rank.stop_at is None:
        return Outcome.TORN_VALUE
    if record.exit.signal is not None:
        return Outcome.SIGNALLED
    if record.exit.code is None:
        return Outcome.ORPHANED if forkserver_lost else Outcome.UNKNOWN
    if not is_function or record.exit.code != 0:
        return Outcome.EXITED
    return Outcome.RETURNED if record.told is not None else Outcome.NO_VALUE


def _lacked_memory(told: dict[str, Any], outcome: Outcome) -> bool:
    """Whether a rank says that it was refused memory, as a limit of the process does it."""
    said = f"{told.get('type')} {told.get('message')}"
    return any(word in said for word in LACKS_MEMORY)


def _note(
    spec: Spec,
    rank: Rank,
    record: RankRecord,
    told: dict[str, Any],
    log: str,
    outcome: Outcome,
    announced: int | None,
) -> str:
    if outcome is Outcome.NOT_STARTED:
        return _start_hint(record)
    if outcome is Outcome.LOST and record.pid is not None:
        return f"its process {describe(record.pid)}"
    notes: list[str] = []
    if record.reader is not None and record.reader.garbage:
        notes.append("it wrote to its result pipe, which is not its own: what it told is not known")
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
    limit = spec.placement.memory_bytes
    if limit is not None and (record.over_limit or _lacked_memory(told, outcome)):
        from procession.report import format_bytes

        notes.append(f"its memory limit is {format_bytes(limit)}")
    if told.get("errno") == errno.ENOSPC or (log and disk_is_full(log)):
        where = f" of {log}" if log else ""
        notes.append(f"no space is left on the disk{where}")
    return "; ".join(notes)


def _start_hint(record: RankRecord) -> str:
    if record.start_fault is None:
        return "it did not reach its program in time"
    return START_HINTS.get(record.start_fault[1], "")


def start_failed(spec: Spec, e: OSError) -> StartFailed:
    """Give the failure of a group of which nothing could be started."""
    cause = RankEnd(
        rank=0,
        pid=None,
        outcome=Outcome.NOT_STARTED,
        message=f"could not be started, nor any other rank: {e.strerror or e}",
        happened_at=time.monotonic_ns(),
        note=START_HINTS.get(e.errno or 0, ""),
    )
    end = GroupEnd(
        name=spec.name,
        nproc=spec.nproc,
        failures=(cause,),
        node=spec.node.rank,
        nodes=spec.node.count,
        first=spec.node.first(spec.nproc),
        world=spec.node.size(spec.nproc),
    )
    return StartFailed(end, harmless_report(end))


def harmless_report(end: GroupEnd) -> str:
    """Write the report, with whatever ranks wrote made harmless for a terminal."""
    from procession.output.escape import harmless
    from procession.report import format_report

    return harmless(format_report(end).encode(errors="backslashreplace")).decode()
