"""How a group ended, as plain data and in words."""

from __future__ import annotations

import time

from procession.explain.report import (
    FULL_TRACEBACKS,
    format_report,
    how_it_ended,
    of_all,
    stacks_of,
    unshown,
)
from procession.output.text import harmless_text
from procession.rules.tables import Phase
from procession.values.errors import GroupEnd, Outcome, RankEnd, signal_name
from procession.values.figures import duration
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AS_THEY_ARE = (
    "host", "pid", "message", "traceback", "cpu_seconds", "peak_memory", "out_of_memory",
    "stdout_log", "stderr_log", "error_file", "note",
)  # fmt: skip


def summary(spec: Spec, state: Phase, end: GroupEnd | None, code: int, began: float) -> Any:
    """Say as plain data how a group ended; end: None for one of which nothing could be started.

    code: the exit code of the launcher's command. began: in seconds of the monotonic clock.
    """
    ended = time.monotonic()
    end = end or GroupEnd(spec.name, spec.nproc)
    failures = [_rank(each, spec, began) for each in end.failures]
    return {
        "name": spec.name,
        "state": state.name,
        "exit_code": code,
        "nproc": spec.nproc,
        "node": spec.node.rank,
        "nodes": spec.node.count,
        "attempt": end.attempt,
        "run_dir": end.run_dir,
        "began": round(time.time() - (ended - began), 6),
        "seconds": round(ended - began, 6),
        "cause": failures[0] if failures else None,
        "failures": [each["rank"] for each in failures],
        "stacks": list(end.stacks),
        "stacks_file": end.stacks_file,
        "ranks": [_rank(each, spec, began) for each in _in_order(end)],
    }


def _in_order(end: GroupEnd) -> list[RankEnd]:
    return sorted((*end.failures, *end.ended, *end.finished), key=lambda each: each.rank)


def _rank(end: RankEnd, spec: Spec, began: float) -> dict[str, Any]:
    node, first = spec.node, spec.node.first(spec.nproc)
    local = (node.local + end.rank) % node.local_size(spec.nproc)
    return {
        "rank": first + end.rank,
        "local_rank": local if end.local_rank is None else end.local_rank,
        "outcome": end.outcome.name,
        "exit_code": end.exit.code if end.announced is None else end.announced,
        "signal": signal_name(end.exit.signal) if end.exit.signal else None,
        "type": end.type_name,
        "started_after": round(end.started_at / 1e9 - began, 6) if end.started_at else None,
        "seconds": round(end.seconds, 6),
        **{name: getattr(end, name) for name in AS_THEY_ARE},
    }


def report_of(state: Phase, end: GroupEnd, stopper: str = "") -> str:
    """Give the report of a group that failed, or say in a few lines how it came to a good end.

    stopper: who stopped it, in words, "" if that is not known.
    """
    if end.failures:
        return format_report(end)
    how = "finished" if state is Phase.SUCCEEDED else "was stopped"
    ranks = "1 rank" if end.nproc == 1 else f"{end.nproc} ranks"
    lines = [f"{end.name} {how}: {ranks}"]
    ends = [each.__replace__(rank=end.first + each.rank) for each in _in_order(end)]
    if state is Phase.STOPPED:
        lines += [f"  stopped by {stopper}"] if stopper else []
        lines += [f"  {line}" for line in (*stacks_of(end), *unshown(end, end.first))]
    if ends:
        lines[0] += f", {duration(max(each.seconds for each in ends))}"
    # Only what is the same in all that is known of it has one line, and one traceback.
    alike: dict[tuple[str, str, str], list[RankEnd]] = {}
    for each in ends:
        alike.setdefault((how_it_ended(each), each.message, each.traceback), []).append(each)
    shown = 0
    for (fate, _, _), group in alike.items():
        lines.append(f"  {of_all(group, fate)}")
        if group[0].outcome is Outcome.RAISED and shown < FULL_TRACEBACKS:
            traceback = group[0].traceback.rstrip("\n").splitlines()
            lines += [f"    {line}".rstrip() for line in traceback]
            shown += 1
    lines += ["", *(f"note: {note}" for note in end.notes)] if end.notes else []
    lines += ["", f"run directory: {end.run_dir}"] if end.run_dir else []
    return harmless_text("\n".join(lines))
