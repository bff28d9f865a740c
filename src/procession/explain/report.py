"""How ranks and groups ended, in words: the report, and the remark on a rank that failed.

The report is pure: facts in, text out. Only the remark may look at this machine as it is now.
"""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable, Sequence

from procession.output.repeated import plain_lines, without
from procession.output.text import harmless_text
from procession.system.processes import describe
from procession.values.errors import GroupEnd, Outcome, RankEnd, signal_name
from procession.values.figures import duration, format_ranks, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.explain.records import Left, RankRecord
    from procession.rules.lifecycle import RankState
    from procession.values.spec import Spec

FOLD_ABOVE = 8  # lines of other ranks; beyond, those that ended alike share one
FULL_TRACEBACKS = 8  # of simultaneous failures
ORIGINAL = "Original Traceback (most recent call last):"
NAMED = 3  # exceptions of what was not shown
CODES = {
    Outcome.RAISED: "P101",
    Outcome.EXITED: "P102",
    Outcome.SIGNALLED: "P103",
    Outcome.HUNG: "P105",
    Outcome.NOT_STARTED: "P106",
    Outcome.UNPICKLABLE: "P107",
    Outcome.NO_VALUE: "P108",
    Outcome.TORN_VALUE: "P109",
    Outcome.INTERRUPTED: "P110",
    Outcome.LOST: "P111",
    Outcome.NODE_LOST: "P112",
    Outcome.ORPHANED: "P113",
    Outcome.UNKNOWN: "P114",
}  # of how a rank failed, see `procession explain`
OUT_OF_MEMORY = "P104"
PLURAL = {"was": "were", "it": "they", "its": "their"}


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


def format_report(end: GroupEnd) -> str:
    """Write the report of a group that failed, made harmless for a terminal."""
    where = f" on node {end.node} of {end.nodes}" if end.nodes > 1 else ""
    end = _numbered_globally(end)
    cause = end.failures[0]
    together = end.together[1:]
    later = [f for f in end.failures[1:] if f not in together]
    lines = [f"{end.name} failed{where}: {_coded_headline(cause, end.nproc)}", *details(cause)]
    if together:
        lines += ["", "simultaneous failures (order unknown):"]
        for failure in together[:FULL_TRACEBACKS]:
            lines += ["", headline(failure, end.nproc), *details(failure)]
        rest = together[FULL_TRACEBACKS:]
        lines += _others("and also at the same time", rest, cause, what_happened)
    lines += _stacks(end, cause)
    lines += _others("failed by themselves, later", later, cause, what_happened)
    never = (Outcome.NOT_STARTED, Outcome.CANCELLED)
    unstarted = [e for e in end.ended if e.outcome in never]
    ended = [e for e in end.ended if e.outcome not in never]
    lines += _others("ended by the group", ended, cause, how_it_ended)
    lines += _others("not started", unstarted, cause, _unstarted)
    lines += _others("finished", end.finished, cause, _finish)
    if end.attempt:
        lines += ["", f"this was attempt {end.attempt}, after {_before(end)}"]
    lines += ["", *(f"note: {note}" for note in end.notes)] if end.notes else []
    if said := unshown(end):
        lines += ["", *said]
    if end.run_dir:
        lines += ["", f"run directory: {end.run_dir}"]
    return harmless_text("\n".join(lines))


def _before(end: GroupEnd) -> str:
    """Say why there were attempts before this one."""
    restarts, changes = end.attempt - end.regrouped, end.regrouped
    said = [f"{restarts} restart{'s' * (restarts > 1)}"] if restarts else []
    said += [f"{changes} change{'s' * (changes > 1)} of machines"] if changes else []
    return " and ".join(said)


def _stacks(end: GroupEnd, cause: RankEnd) -> list[str]:
    if not end.stacks:
        return []
    hung = cause.outcome is Outcome.HUNG
    title = "when it hung, the ranks were:" if hung else "when it failed, the others were:"
    return ["", *stacks_of(end, title)]


def stacks_of(end: GroupEnd, title: str = "when it was stopped, the ranks were:") -> list[str]:
    """Say where ranks were, as far as that is known."""
    if not end.stacks:
        return []
    lines = [title, *(f"  {line}" for line in end.stacks)]
    return [*lines, f"  all stacks: {end.stacks_file}"] if end.stacks_file else lines


def unshown(end: GroupEnd, first: int = 0, when: str = "after that") -> list[str]:
    """Say what the console did not show, if there is anything. first: number of its rank 0."""
    held = [e for e in (*end.failures, *end.ended, *end.finished) if e.unshown]
    if not held:
        return []
    errors = [*dict.fromkeys(error for e in held for error in e.unshown_errors)]
    named = ", ".join([*errors[:NAMED], *(["..."] if errors[NAMED:] else [])])
    count = sum(e.unshown for e in held)
    what, them = _lines(count) + (f" ({named})" if named else ""), "it" if count == 1 else "them"
    logs = f", their logs keep {them}" if any(e.stderr_log or e.stdout_log for e in held) else ""
    who = format_ranks(first + e.rank for e in held)
    return [f"{when}, {who} wrote {what}: --all-output shows {them}{logs}"]


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _numbered_globally(end: GroupEnd) -> GroupEnd:
    """Give ranks the numbers that they have in the whole job."""
    end = end.__replace__(nproc=end.world or end.nproc)
    if not end.first:
        return end  # its ranks may be thousands
    ranks = (end.failures, end.ended, end.finished)
    failures, ended, finished = (
        tuple(r.__replace__(rank=end.first + r.rank) for r in some) for some in ranks
    )
    return end.__replace__(failures=failures, ended=ended, finished=finished)


def headline(end: RankEnd, nproc: int) -> str:
    """Say in one line which rank failed, how, and when."""
    of = f" of {nproc}" if nproc > 1 else ""
    if why := end.message.partition(", nor any other rank: ")[2]:  # see `ends.none_started`
        return f"no rank could be started: {why}"
    return f"{_who(end, of)} {what_happened(end)}{_after(end)}{_memory_verdict(end)}"


def headline_of(end: GroupEnd) -> str:
    """Say in one line what failed first in a group, by its number in the whole job."""
    cause = end.failures[0]
    return _coded_headline(cause.__replace__(rank=end.first + cause.rank), end.world or end.nproc)


def _coded_headline(end: RankEnd, nproc: int) -> str:
    """Say the headline, with a code at its end. Why machines did not come has one already."""
    said = headline(end, nproc)
    code = OUT_OF_MEMORY if end.out_of_memory else CODES.get(end.outcome)
    if code is None or (end.outcome is Outcome.NOT_STARTED and said[-6:-4] == "[P"):
        return said
    return f"{said} [{code}]"


def details(end: RankEnd) -> list[str]:
    """Say all that is known about a failure, below its headline."""
    facts: list[str] = []
    said = end.announced is not None or end.outcome in (Outcome.NO_VALUE, Outcome.EXITED)
    if not said and end.exit.known:
        ended = "it then ended: " if end.outcome is Outcome.HUNG else ""
        facts.append(f"{ended}{end.exit}")
    if end.peak_memory is not None:
        facts.append(f"peak memory {size(end.peak_memory)}")
    if end.cpu_seconds is not None:
        facts.append(f"CPU {duration(end.cpu_seconds)}")
    lines = ["  " + ", ".join(facts)] if facts else []
    if end.note:
        lines.append(f"  {end.note}")
    traceback = end.traceback.rstrip("\n").splitlines()
    if traceback:
        lines += ["", *(f"  {line}".rstrip() for line in traceback)]
    tail = _without(_of_program(end.stderr_tail), end.traceback)
    if tail:
        lines += ["", "  last lines of stderr:", *(f"    {line}".rstrip() for line in tail)]
    logs = [path for path in (end.stderr_log, end.stdout_log) if path]
    if logs:
        lines += ["", f"  full log: {'  '.join(logs)}"]
    return lines


def what_happened(end: RankEnd) -> str:
    """Say what a rank did, as the verb of a sentence."""
    if end.outcome is Outcome.RAISED:
        said = f": {_first_line(end.message)}" if end.message.strip() else ""
        return f"raised {end.type_name}{said}"
    if end.outcome is Outcome.UNPICKLABLE:
        return f"returned a {end.type_name} that cannot be pickled ({_one_line(end.message)})"
    if end.outcome is Outcome.SIGNALLED and end.exit.signal is not None:
        core = ", and dumped core" if end.exit.core else ""
        return f"was killed by {signal_name(end.exit.signal)}{core}"
    if end.outcome is Outcome.HUNG:
        return f"hung: {_one_line(end.message)}"
    if end.outcome is Outcome.EXITED:
        code = end.exit.code if end.announced is None else end.announced
        said = f': "{_first_line(end.message)}"' if end.message.strip() else ""
        return f"exited with code {code}{said}" if code is not None else f"exited{said}"
    if end.outcome is Outcome.NOT_STARTED:
        return _one_line(end.message) or "did not start in time"
    if end.outcome is Outcome.NO_VALUE:
        return "exited with code 0 before its function had returned"
    return end.outcome.value


def _others(
    title: str, ends: Sequence[RankEnd], cause: RankEnd, fate: Callable[[RankEnd], str]
) -> list[str]:
    if not ends:
        return []
    if len(ends) <= FOLD_ABOVE:
        return ["", f"{title}:", *(f"  {_who(e)} {fate(e)}{_when(e, cause)}" for e in ends)]
    alike: dict[str, list[RankEnd]] = {}
    for e in ends:
        alike.setdefault(fate(e), []).append(e)
    return ["", f"{title}:", *(f"  {of_all(same, said)}" for said, same in alike.items())]


def of_all(ends: list[RankEnd], fate: str) -> str:
    """Say what ranks did, all the same; fate: as the verb of a sentence on one of them."""
    if len(ends) > 1 and not ends[0].message:  # what a program said stays as it is
        fate = " ".join(PLURAL.get(word, word) for word in fate.split(" "))
    return f"{format_ranks(e.rank for e in ends)} {fate}"


def _unstarted(end: RankEnd) -> str:
    return "had no process yet" if end.outcome is Outcome.CANCELLED else what_happened(end)


def _finish(end: RankEnd) -> str:
    """Say how a rank that finished left."""
    if end.exit.signal is not None:
        return f"had finished, and was ended by {signal_name(end.exit.signal)} as it exited"
    return what_happened(end)


def how_it_ended(end: RankEnd) -> str:
    """Say how a rank that did not fail came to its end."""
    if end.outcome is Outcome.SIGNALLED and end.exit.signal is not None:
        if end.sent is not None and end.exit.signal not in end.sent:
            return f"{what_happened(end)} while it was being ended"
        return f"was ended by {signal_name(end.exit.signal)}"
    return what_happened(end)


def _when(end: RankEnd, cause: RankEnd) -> str:
    if end.outcome in (Outcome.CANCELLED, Outcome.NOT_STARTED, Outcome.LOST):
        return ""
    if end.happened_at > cause.happened_at:
        return f", {duration((end.happened_at - cause.happened_at) / 1e9)} later"
    return _after(end)


def _who(end: RankEnd, of: str = "") -> str:
    where = [f"pid {end.pid}"] if end.pid is not None else []
    where += [f"on {end.host}"] if end.host else []
    return f"rank {end.rank}{of}" + (f" ({' '.join(where)})" if where else "")


def _after(end: RankEnd) -> str:
    if not end.started_at or end.outcome in (Outcome.NOT_STARTED, Outcome.HUNG):
        return ""
    return f" after {duration(end.seconds)}"


def _memory_verdict(end: RankEnd) -> str:
    """Say, for SIGKILL, whether memory was the likely reason."""
    if end.exit.signal != 9 or end.outcome not in (Outcome.SIGNALLED, Outcome.TORN_VALUE):
        return ""
    if end.out_of_memory:
        peak = f" (peak {size(end.peak_memory)})" if end.peak_memory is not None else ""
        return f", likely out of memory{peak}"
    if end.out_of_memory is False:
        return " (the kernel reports no out-of-memory kill)"
    return ""


def _of_program(tail: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out of what `faulthandler` wrote what is not the program's."""
    if not any("(most recent call first):" in line for line in tail):
        return tail
    from procession.explain.stacks.text import is_ours

    return tuple(
        line for line in tail if not is_ours(line) and not line.startswith("Extension modules: ")
    )


def _without(tail: tuple[str, ...], traceback: str) -> list[str]:
    """Leave out of the end of stderr what only repeats the traceback, or the end of it."""
    lines = [line.rstrip().encode(errors="surrogatepass") for line in tail]
    if told := plain_lines(traceback.encode(errors="surrogatepass")):
        lines, _ = without(lines, told, cut=True)
    return [line.decode(errors="surrogatepass") for line in lines]


def _first_line(text: str) -> str:
    """Give the first line that is not empty; the traceback shows the others.

    torch puts the traceback of a DataLoader's worker into the message: its last line says why.
    """
    first, *others = text.strip().split("\n")
    if ORIGINAL in others:
        return _one_line(f"{first.rstrip('.')}: {others[-1]}")
    return _one_line(first)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:200]} ... {line[-95:]}"


# -- remarks on ranks that failed


def remark_on(
    spec: Spec,
    rank: RankState,
    record: RankRecord,
    left: Left,
    outcome: Outcome,
    announced: int | None,
) -> str:
    """Say what else may explain the failure of a rank, "" for nothing."""
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
    described = record.description
    said = f"{described.get('type')} {described.get('message')}"
    if spec.placement.memory_limit is not None and (
        record.over_limit or any(word in said for word in LACKS_MEMORY)
    ):
        limit = spec.placement.memory_limit
        notes.append(f"its memory limit is {limit if isinstance(limit, str) else size(limit)}")
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
