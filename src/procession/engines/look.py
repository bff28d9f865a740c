"""A job as it is now, as plain data: what its node processes answer, put together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from procession.engines.driver import Driver
from procession.engines.outcome import NodePart
from procession.engines.work import Work
from procession.explain.report import what_happened
from procession.group.handle import Handle
from procession.group.looking import outline
from procession.rules.tables import Ended
from procession.values.base import Record
from procession.values.errors import RankEnd

Look = dict[str, Any]

LOOK_SECONDS = 0.5  # for node processes to look at their ranks
TIMES = ("started_at", "beat_at")


class Seen(Record):
    """The last answer of each node about its ranks, for when it does not answer.

    attempt: of the job; answers of earlier attempts are dropped.
    """

    attempt: int
    ranks: dict[int, list[Look]]


def look_at(job: Handle, driver: Driver, seen: Seen) -> dict[str, Any]:
    """Describe a job as it is now; for any thread but the driver's. Keys: see `looking.look_at`.

    Besides, engine (its name), hosts (the machine of each node), agents (host and pid of each),
    links (what protects them, in words).
    """
    work, life = driver.work, driver.life
    answers = driver.questions.ask("look", LOOK_SECONDS)
    attempt, parts = life.attempt, list(driver.state.parts)
    if seen.attempt != attempt:
        seen.attempt = attempt
        seen.ranks.clear()
    return {
        **outline(job.spec, job.run_id, job.run_dir),
        "state": job.state.name,
        "attempt": attempt,
        "began": time.time() - (time.monotonic() - job.began),
        "cause": cause_of(parts),
        "kill_at": kill_at(answers),
        "ranks": ranks_of_job(parts, answers, seen, work),
        "engine": driver.engine.name,
        "hosts": [part.host for part in parts],
        "links": list(driver.state.encryption),
        "agents": [{"host": node.host, "pid": node.pid} for node in driver.nodes],
    }


def stacks_of(driver: Driver, seconds: float, *, native: bool) -> list[dict[str, Any]]:
    """Say where all ranks are, by their numbers in the job; see `Group.stacks`."""
    work = driver.work
    answers = driver.questions.ask("stacks", seconds, seconds=seconds, native=native)
    return [
        {**rank, "rank": work.first(node) + int(rank["rank"])}
        for node, ranks in sorted(answers.items())
        for rank in ranks or ()
    ]


def ranks_of_job(
    parts: Sequence[NodePart], answers: Mapping[int, Any], seen: Seen, work: Work
) -> list[Look]:
    """Give the ranks of all nodes, with their numbers in the job; keys as `looking` has them.

    Besides, host: the name of the machine. answers: by node, None from one without ranks. seen:
    is brought up to date.
    """
    now = time.time()
    for node, answer in answers.items():
        if answer:
            ahead = float(answer["now"]) - now  # of its clock, as far as one answer shows
            seen.ranks[node] = [_moved(rank, ahead) for rank in answer["ranks"]]
    found: list[Look] = []
    for node in range(work.nodes):
        part = parts[node] if node < len(parts) else None
        known = {int(rank["rank"]): rank for rank in seen.ranks.get(node, ())}
        for local in range(work.size(node)):
            rank = {**_nothing(), **known.get(local, {})}
            if part is not None:
                _add_end(rank, part, local)
            host = part.host if part is not None else ""
            found.append({**rank, "rank": work.first(node) + local, "host": host})
    return found


def _moved(rank: Look, ahead: float) -> Look:
    times = {name: rank[name] - ahead for name in TIMES if rank[name] is not None}
    return {**rank, **times}


def _nothing() -> Look:
    """Give the description of a rank about which nothing is known."""
    return {
        "pid": None, "state": "PENDING", "started_at": None, "exit": None, "ended": None,
        "failed": False, "last_line": "", "beats": 0, "beat_at": None, "step": None,
        "total": None, "fields": {},
    }  # fmt: skip


def _add_end(rank: Look, part: NodePart, local: int) -> None:
    """Add how a rank ended, if its node has reported it, or is lost."""
    if part.end is not None:
        lists = (
            (part.end.failures, Ended.FAILED),
            (part.end.finished, Ended.FINISHED),
            (part.end.ended, Ended.STOPPED),
        )
        for ends, how in lists:
            for end in ends:
                if end.rank == local:
                    said = str(end.exit)
                    rank |= {"state": "EXITED", "exit": said, "ended": how.name, "pid": end.pid}
                    rank["failed"] = how is Ended.FAILED
    elif part.lost:
        rank |= {"state": "LOST", "exit": "its node is lost", "ended": Ended.LOST.name}


def cause_of(parts: Sequence[NodePart]) -> str | None:
    """Say what failed first, as far as it is known; None if nothing has."""
    failures: list[tuple[int, str]] = []
    for part in parts:
        end: RankEnd | None = part.failed
        if part.end is not None and part.end.failures:
            end = part.end.failures[0]
        if end is not None:
            at = part.clocks.ours(end.happened_at)
            failures.append((at, f"rank {part.first + end.rank} {what_happened(end)}"))
        elif part.lost:
            failures.append((part.lost_at, f"node {part.node} was lost: {part.lost}"))
    return min(failures)[1] if failures else None


def kill_at(answers: Mapping[int, Any]) -> float | None:
    """Tell by when the last of the ranks gets SIGKILL, in seconds since 1970."""
    now = time.time()
    known = [a for a in answers.values() if a and a["kill_at"] is not None]
    return max((float(a["kill_at"]) - (float(a["now"]) - now) for a in known), default=None)
