"""From what agents told to how a job ended: ranks with their numbers in the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from procession.engines.clocks import Clocks
from procession.errors import GroupEnd, Outcome, RankEnd
from procession.report import what_happened
from procession.stacks import merge
from procession.values import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


NOTHING: Mapping[str, Any] = MappingProxyType({})


class NodePart(Record):
    """What is known of one node's part of an attempt.

    host: its name. clocks: its clock against ours. failed: its first failure, as it was told when
    it happened. end: how it ended. lost: why its agent is gone, while it had ranks; lost_at: when
    it was heard last. stacks: where its ranks were, put together as `merge.Together` has it. told:
    what ranks that failed told, by local rank. values: pickles, by local rank.
    """

    node: int
    host: str
    clocks: Clocks
    values: dict[int, bytes]
    failed: RankEnd | None = None
    end: GroupEnd | None = None
    state: str = ""
    lost: str = ""
    lost_at: int = 0
    stacks: Sequence[Mapping[str, Any]] = ()
    told: Mapping[str, Any] = NOTHING


def job_end(
    name: str,
    nproc: int,
    nodes: int,
    attempt: int,
    parts: Sequence[NodePart],
    notes: Sequence[str],
    run_dir: str = "",
) -> GroupEnd:
    """Put the parts of an attempt together. nproc: ranks of each node.

    The failures stand in the order in which they happened, by our clock. A lost node's ranks are
    failures, too, at the time at which it was heard last, unless a failure of theirs is known.
    """
    failures: list[RankEnd] = []
    ended: list[RankEnd] = []
    finished: list[RankEnd] = []
    said = list(notes)
    for part in parts:
        own = _ends(part, nproc)
        failures += own.failures
        ended += own.ended
        finished += own.finished
        said += [f"{part.host}: {note}" for note in own.notes]
        if part.lost:
            said.append(f"node {part.node} ({part.host}) was lost: {part.lost}")
    failures.sort(key=lambda each: each.happened_at)
    return GroupEnd(
        name=name,
        nproc=nproc * nodes,
        attempt=attempt,
        failures=tuple(failures),
        ended=tuple(sorted(ended, key=_by_rank)),
        finished=tuple(sorted(finished, key=_by_rank)),
        run_dir=run_dir,
        stacks=tuple(_stacks(parts, failures)),
        notes=tuple(said),
    )


def _by_rank(end: RankEnd) -> int:
    return end.rank


def _ends(part: NodePart, nproc: int) -> GroupEnd:
    first = part.node * nproc

    def here(end: RankEnd) -> RankEnd:
        return end.__replace__(
            rank=first + end.rank,
            host=part.host,
            started_at=part.clocks.ours(end.started_at),
            happened_at=part.clocks.ours(end.happened_at),
        )

    if part.end is not None:
        return part.end.__replace__(
            failures=tuple(map(here, part.end.failures)),
            ended=tuple(map(here, part.end.ended)),
            finished=tuple(map(here, part.end.finished)),
        )
    known = [here(part.failed)] if part.failed is not None else []
    lost = [
        RankEnd(
            rank=first + rank,
            pid=None,
            outcome=Outcome.NODE_LOST,
            message=part.lost,
            happened_at=part.lost_at,
            host=part.host,
        )
        for rank in range(nproc)
        if all(end.rank != first + rank for end in known)
    ]
    own = GroupEnd("", nproc, failures=tuple(known), ended=tuple(lost))
    return own if known or not part.lost else own.__replace__(failures=tuple(lost), ended=())


def _stacks(parts: Sequence[NodePart], failures: Sequence[RankEnd]) -> list[str]:
    """Say where the ranks of all nodes were, but for those that failed, unless they hung."""
    out = {end.rank for end in failures if end.outcome is not Outcome.HUNG}
    groups: list[merge.Together] = []
    for part in parts:
        for each in part.stacks:
            ranks = tuple(rank for rank in each["ranks"] if rank not in out)
            groups += [merge.Together(str(each["said"]), ranks)] if ranks else []
    return merge.lines_of_groups(merge.joined(groups)) if failures else []


def facts_of_failure(end: RankEnd) -> dict[str, Any]:
    """Give what an event tells of a failure; see `eventkinds`."""
    facts: dict[str, Any] = {
        "failed_rank": end.rank,
        "outcome": end.outcome.name.lower(),
        "message": what_happened(end),
    }
    if end.exit.code is not None:
        facts["exit_code"] = end.exit.code
    if end.exit.signal is not None:
        facts |= {"signal": end.exit.signal, "core": end.exit.core}
    return facts


__all__ = ["NodePart", "facts_of_failure", "job_end"]
