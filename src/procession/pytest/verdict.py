"""What the ranks of a test said, made one verdict. Pure: plain data in, plain data out.

A test passes if all ranks passed it, and is skipped, or an expected failure, if all ranks say so.
It fails if a rank fails, or if ranks do not agree. The failure that happened first is shown in
full; for the other ranks, one line says how they ended.
"""

from __future__ import annotations

import os

from procession.values.base import Value
from procession.values.figures import fold_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Told = Mapping[str, Any]

STRICT = "[XPASS(strict)] "  # pytest's words for an unexpected success that counts as a failure
# What gloo and NCCL say where another rank has gone.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "remote process exited")
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python")
TEXT_OF_OTHERS = 20  # lines of the output of a rank that is not the one to blame


class Verdict(Value):
    """What came of a test.

    outcome: "passed", "skipped", "xfailed" or "failed". when: the phase that failed. headline: the
    failure in a line. reason: of a skip or an expected failure. first: the rank that failed first,
    None where no single one did. report: its serialized report, None if it died without one.
    others: what became of the other ranks, in lines. sections: captured output, with its headings.
    stacks: where the ranks were when their time was over. seconds: until all ranks had ended it.
    certain: a failure that the mark `xfail` does not excuse.
    """

    outcome: str
    when: str = "call"
    headline: str = ""
    reason: str = ""
    first: int | None = None
    report: Told | None = None
    others: tuple[str, ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    stacks: str = ""
    seconds: float = 0.0
    certain: bool = False


def merged(came: Told) -> Verdict:
    """Make one verdict of what ranks report."""
    ranks: Sequence[Told] = came["ranks"]
    own = [_own(told) for told in ranks]
    failed = [rank for rank, (what, _) in enumerate(own) if what == "failed"]
    if failed:
        first = min(failed, key=lambda rank: (_failed_at(ranks[rank]), rank))
        verdict = _of_failure(ranks, own, first)
    elif came["over"]:
        verdict = _failure(came["over"]).__replace__(
            others=_lines(ranks, own, None), sections=_output(ranks, None)
        )
    else:
        verdict = _of_agreement(ranks, own)
    # An orphan may be seen twice: below its rank, and when that is gone, below its agent.
    whose = {line: f"{line} of rank {r}" for r, told in enumerate(ranks) for line in told["left"]}
    left = list(dict.fromkeys([*whose.values(), *(whose.get(line, line) for line in came["left"])]))
    if left:
        said = f"the test left {'a process' if len(left) == 1 else f'{len(left)} processes'} behind"
        lines = (f"{said}, ended now:", *(f"  {line}" for line in left))
        if verdict.outcome != "failed":
            found = _failure(f"{said}: {left[0]}")
            verdict = found.__replace__(others=lines, sections=verdict.sections)
        else:
            verdict = verdict.__replace__(others=(*verdict.others, *lines))
    if came.get("renewed"):
        line = f"new ranks for the next test: {came['renewed']}"
        verdict = verdict.__replace__(others=(*verdict.others, line))
    return verdict.__replace__(stacks=came.get("stacks", ""), seconds=came["took"])


def _failure(headline: str) -> Verdict:
    return Verdict("failed", when="call", headline=headline, certain=True)


def phases_of(told: Told) -> list[Told]:
    """Give the reports of a rank's phases."""
    return [report for report in told["reports"] if "when" in report]


def _own(told: Told) -> tuple[str, str]:
    """Say what the test came to in one rank, and why: the outcome and the reason.

    "ended": it did not come to its end, and others are the reason.
    """
    if "crash" in told:
        return "failed", f"{told['crash']}, after its test" if told["done"] else told["crash"]
    outcome, reason = "passed", ""
    for report in phases_of(told):
        text = report["longrepr"]
        if report["outcome"] == "failed" and not str(text).startswith(STRICT):
            return "failed", report["when"]
        if report["outcome"] == "skipped" and report["when"] != "teardown":
            xfail = "wasxfail" in report
            outcome = "xfailed" if xfail else "skipped"
            reason = report["wasxfail"] if xfail else _reason(text)
    return (outcome, reason) if told["done"] else ("ended", "")


def _reason(longrepr: Any) -> str:
    words: Any = longrepr
    return str(words[2] if isinstance(longrepr, (list, tuple)) else words).removeprefix("Skipped: ")


def _failing(told: Told) -> Told | None:
    """Give the report of the first phase that failed."""
    return next((each for each in phases_of(told) if each["outcome"] == "failed"), None)


def place_of_failure(told: Told) -> tuple[str, int] | None:
    """Say in which file and line a rank failed, None if it did not."""
    report = _failing(told)
    crash = None if report is None else _crash(report)
    if report is None:
        return None
    return (crash["path"], crash["lineno"]) if crash else ("", 0)


def _failed_at(told: Told) -> int:
    """Say when a rank failed, in nanoseconds."""
    report = _failing(told)
    return report["monotonic"] if report is not None else told["crashed_at"]


def _of_failure(ranks: Sequence[Told], own: list[tuple[str, str]], first: int) -> Verdict:
    told = ranks[first]
    report = _failing(told)
    size = len(ranks)
    of = f"rank {first} of {size}" if size > 1 else "rank 0"
    if report is None:
        where = f", {told['where']}" if told.get("where", "").startswith(("is ", "waits ")) else ""
        headline = f"{of} {own[first][1]}{where}"
    else:
        during = "" if report["when"] == "call" else f" in {report['when']}"
        headline = f"{of} failed{' first' * (size > 1)}{during}: {_message(report)}"
    return Verdict(
        "failed",
        when=report["when"] if report is not None else "call",
        headline=headline,
        first=first,
        report=report,
        others=_lines(ranks, own, first),
        sections=_output(ranks, first),
    )


def _of_agreement(ranks: Sequence[Told], own: list[tuple[str, str]]) -> Verdict:
    outcomes = {outcome for outcome, _ in own}
    if len(outcomes) == 1:
        outcome = outcomes.pop()
        if outcome == "ended":
            return _failure("the ranks were ended before their test was over")
        return Verdict(outcome, reason=own[0][1], sections=_output(ranks, None))
    which: dict[str, list[int]] = {}
    for rank, (outcome, reason) in enumerate(own):
        why = f" ({reason})" if reason else ""
        words = {"skipped": "skipped it", "xfailed": "failed as expected", "ended": "were ended"}
        which.setdefault(words.get(outcome, "passed") + why, []).append(rank)
    said = "; ".join(f"{_ranks(of)} {what}" for what, of in which.items())
    found = _failure(f"the ranks do not agree: {said}")
    return found.__replace__(sections=_output(ranks, None))


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {fold_ranks(numbers)}"


def _message(report: Told) -> str:
    crash = _crash(report)
    text = crash["message"] if crash else str(report["longrepr"])
    lines = text.strip().splitlines() or ["no message"]
    if not crash and lines[0].startswith("file "):  # of a fixture that does not exist: where, first
        lines = [line[1:].strip() for line in lines if line.startswith("E ")] or lines
    # Of an error of syntax, the place comes first and what it is comes last.
    return lines[-1 if lines[0].startswith('File "') else 0][:300]


def _crash(report: Told) -> Any:
    longrepr: Any = report["longrepr"]
    return longrepr.get("reprcrash") if hasattr(longrepr, "get") else None


def _lines(ranks: Sequence[Told], own: list[tuple[str, str]], first: int | None) -> tuple[str, ...]:
    """Say what became of the other ranks, those of one fate in one line."""
    fates: dict[str, list[int]] = {}
    blamed = None if first is None else _failing(ranks[first])
    for rank, (outcome, reason) in enumerate(own):
        if rank == first:
            continue
        told, report = ranks[rank], _failing(ranks[rank])
        if "crash" in told:
            said = told["crash"]
        elif report is not None:
            said = _beside(report, blamed)
        elif outcome == "ended":
            where = told.get("where", "")
            doing = where.replace("waits in", "is waiting in", 1)
            said = f"ended ({where})" if where else "ended"
            if doing.startswith("is "):
                said = f"ended while {doing.removeprefix('is ')}"
        else:
            said = f"{outcome} ({reason})" if reason else outcome
        fates.setdefault(said, []).append(rank)
    return tuple(f"{_ranks(of)}: {said}" for said, of in fates.items())


def _beside(report: Told, blamed: Told | None) -> str:
    """Say how a rank failed, beside the one that failed first."""
    crash, first = _crash(report), _crash(blamed) if blamed is not None else None
    if crash and first and (crash["path"], crash["lineno"]) == (first["path"], first["lineno"]):
        same = crash["message"] == first["message"]
        return "same failure" if same else f"same line: {_message(report)}"
    if not crash and blamed is not None and report["longrepr"] == blamed["longrepr"]:
        return "same failure"
    at = f" ({_line_of(report, crash)})" if crash else ""
    message = _message(report)
    if _has_lost_another(report):  # each names the port of its own connection
        return f"{message.partition(':')[0]}: the connection to another rank is lost{at}"
    return f"{message}{at}"


def _has_lost_another(report: Told) -> bool:
    return any(words in _message(report) for words in LOST_PEER)


def _line_of(report: Told, crash: Told) -> str:
    """Say in which line a rank failed: of its own code, if a library has raised the exception."""
    path, number = crash["path"], crash["lineno"]
    for entry in reversed(report["longrepr"].get("reprtraceback", {}).get("reprentries", ())):
        place: Any = entry["data"].get("reprfileloc")
        if place is not None and not any(part in place["path"] for part in LIBRARIES):
            path, number = place["path"], place["lineno"]
            break
    return f"{os.path.basename(path)}:{number}"


def _output(ranks: Sequence[Told], first: int | None) -> tuple[tuple[str, str], ...]:
    """Give what ranks wrote: all of the one to blame, the end of what the others wrote."""
    found: list[tuple[str, str]] = []
    for rank in sorted(range(len(ranks)), key=lambda rank: rank != first):
        told = ranks[rank]
        phases, failing = phases_of(told), _failing(told)
        sections = [tuple(each) for each in (phases[-1]["sections"] if phases else ())]
        if first not in (None, rank) and failing is not None and _has_lost_another(failing):
            sections = [each for each in sections if "log" not in each[0]]  # torch logs it again
        for title, text in (*sections, *told.get("output", ())):
            kept = text
            if first is not None and rank != first:
                lines = text.splitlines(keepends=True)
                if len(lines) > TEXT_OF_OTHERS:
                    more = f"({len(lines) - TEXT_OF_OTHERS} lines more before)\n"
                    kept = more + "".join(lines[-TEXT_OF_OTHERS:])
            found.append((f"{title} (rank {rank})" if len(ranks) > 1 else title, kept))
    return tuple(found)
