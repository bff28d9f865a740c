"""The ranks of a job and their end, put together from what its node processes report."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from procession.explain.report import what_happened
from procession.explain.stacks import merge, text
from procession.prepare.work import Work
from procession.rules.tables import Ended
from procession.values.base import Record
from procession.values.errors import Exit, GroupEnd, Outcome, RankEnd

TIMES = ("started_at", "beat_at")  # of a rank, in seconds since 1970
SEEN_LATE = 50_000_000  # ns
DRIFT = 20_000  # a clock gains or loses a nanosecond in so many, at most
PLACES = ("waits in ", "is in ", "is at ", "is stopped ")  # how descriptions of stacks begin
NOTHING: Mapping[str, Any] = MappingProxyType({})
NOTHING_KNOWN: Mapping[str, Any] = {
    "pid": None, "state": "PENDING", "started_at": None, "exit": None, "ended": None,
    "failed": False, "last_line": "", "beats": 0, "beat_at": None, "step": None,
    "total": None, "fields": {},
}  # fmt: skip


class Clocks:
    """The difference of another machine's monotonic clock and ours, in nanoseconds.

    Each heartbeat goes there and back, and brings the time of the other clock. A quick round trip
    gives the difference, to within half of its duration (as in RFC 5905, section 8, but with two
    times instead of four, since the answer is given at once). From then on it is ever less certain,
    since no two clocks are equally fast: so a later round trip replaces it that is a little slower.
    """

    def __init__(self) -> None:
        self._taken_at = 0  # by our clock; 0: there was no round trip
        self._half = 0  # of its duration
        self._offset = 0

    def take_round_trip(self, sent: int, theirs: int, received: int) -> None:
        """Take a round trip: when it began and ended here, and the time there in between."""
        half = (received - sent) // 2
        if half > 0 and (not self._taken_at or half <= self.doubt(received)):
            self._taken_at, self._half = received, half
            self._offset = theirs - (sent + received) // 2

    def ours(self, theirs: int) -> int:
        """Give our time for a time there; 0, which stands for no time, stays 0."""
        return theirs - self._offset if theirs else 0

    def doubt(self, at: int) -> int:
        """Give by how much `ours` may be wrong, for one of our times."""
        return self._half + abs(at - self._taken_at) // DRIFT if self._taken_at else 0


class NodePart(Record):
    """What is known of one node's part of an attempt.

    host: its name. first, nproc: what number its first rank has, and how many it has. named:
    whether reports name the node beside its host. clocks: its clock against ours. failed: its first
    failure, as reported when it happened. end: how it ended; ranks have their numbers in the job in
    both. lost: why its node process is gone, while it had ranks; lost_at: when it was heard last, 0
    if the job was to end anyway. stacks: where its ranks were, put together as `text.Together` has
    it. errors: error reports of ranks that failed, by local rank. values: pickles, by local rank.
    pids, exits: of processes that its ranks have or had, by local rank. looked: its ranks as it has
    described them last.
    """

    node: int
    host: str
    first: int
    nproc: int
    clocks: Clocks
    values: dict[int, bytes | bytearray]
    pids: dict[int, int]
    exits: dict[int, Exit]
    failed: RankEnd | None = None
    end: GroupEnd | None = None
    state: str = ""
    lost: str = ""
    lost_at: int = 0
    stacks: Sequence[Mapping[str, Any]] = ()
    looked: Sequence[Mapping[str, Any]] = ()
    errors: Mapping[str, Any] = NOTHING
    named: bool = False

    def take_look(self, look: Mapping[str, Any] | None) -> float:
        """Take what a node says of its ranks; gives by how many seconds its clock is ahead."""
        if look is None:
            return 0.0
        ahead = float(look["now"]) - time.time()  # as far as one message shows
        self.looked = [
            {**rank, **{n: rank[n] - ahead for n in TIMES if rank[n] is not None}}
            for rank in look["ranks"]
        ]
        return ahead

    @property
    def failure(self) -> RankEnd | None:
        """Its first failure, as far as it is known."""
        return next(iter(self.end.failures), None) if self.end is not None else self.failed

    @property
    def place(self) -> str:
        """Where its ranks are, as reports say it."""
        return f"{self.host}, node {self.node}" if self.named else self.host


def job_end(
    name: str,
    world: int,
    attempt: int,
    parts: Sequence[NodePart],
    notes: Sequence[str],
    run_dir: str = "",
) -> GroupEnd:
    """Put the parts of an attempt together. world: how many ranks the job has.

    The failures stand in the order in which they happened, by our clock, as far as the clocks of
    two machines can be compared. A lost node's ranks are failures, too, at the time at which it was
    heard last, unless a failure of theirs is known.
    """
    failures: list[RankEnd] = []
    ended: list[RankEnd] = []
    finished: list[RankEnd] = []
    said = list(notes)
    for part in parts:
        own = _ends(part)
        failures += own.failures
        ended += own.ended
        finished += own.finished
        said += [f"{part.host}: {note}" for note in own.notes]
        if part.lost:
            said.append(f"node {part.node} ({part.host}) was lost: {part.lost}")
    failures.sort(key=_happened)
    _compare_clocks(failures, parts)
    _blame_the_odd_one(_together(parts, frozenset()), failures, ended)
    hung = {end.rank for end in failures if end.outcome is Outcome.HUNG}
    out = {end.rank for end in failures} - hung
    return GroupEnd(
        name=name,
        nproc=world,
        attempt=attempt,
        failures=tuple(failures),
        ended=tuple(sorted(ended, key=_by_rank)),
        finished=tuple(sorted(finished, key=_by_rank)),
        run_dir=run_dir,
        stacks=tuple(text.lines_of(text.with_first(_together(parts, out), hung))),
        notes=tuple(said),
    )


def _happened(end: RankEnd) -> int:
    """Give by what failures are put in order.

    A rank that dies without a report is seen late, and its peers on other machines raise meanwhile,
    since it is gone. So it counts as having died as early as it can have, within a limit.
    """
    return end.happened_at - min(end.doubt, SEEN_LATE)


def _compare_clocks(failures: list[RankEnd], parts: Sequence[NodePart]) -> None:
    """Add to the doubt about each failure by how much its machine's clock and the first one's are.

    When a node was heard last, is known by our own clock.
    """
    if len(failures) < 2:
        return
    clocks = {part.first + rank: part.clocks for part in parts for rank in range(part.nproc)}

    def doubt(end: RankEnd) -> int:
        lost = end.outcome is Outcome.NODE_LOST
        return 0 if lost else clocks[end.rank].doubt(end.happened_at)

    first = failures[0]
    for n, end in enumerate(failures):
        if clocks[end.rank] is not clocks[first.rank]:
            failures[n] = end.__replace__(doubt=end.doubt + doubt(first) + doubt(end))


def _by_rank(end: RankEnd) -> int:
    return end.rank


def of_job(part: NodePart, end: RankEnd) -> RankEnd:
    """Give the end of a rank of a node by its number in the job, and by our clock."""
    return end.__replace__(
        rank=part.first + end.rank,
        local_rank=end.rank,
        host=part.place,
        started_at=part.clocks.ours(end.started_at),
        happened_at=part.clocks.ours(end.happened_at),
    )


def all_of_job(part: NodePart, end: GroupEnd) -> GroupEnd:
    """Give the end of a node's group with the numbers of its ranks in the job, and by our clock."""

    def here(ends: Sequence[RankEnd]) -> tuple[RankEnd, ...]:
        return tuple(of_job(part, each) for each in ends)

    failures, ended, finished = map(here, (end.failures, end.ended, end.finished))
    return end.__replace__(failures=failures, ended=ended, finished=finished)


def _ends(part: NodePart) -> GroupEnd:
    first, nproc = part.first, part.nproc
    if part.end is not None:
        return part.end
    known = [part.failed] if part.failed is not None else []
    lost = [
        RankEnd(
            rank=first + rank,
            local_rank=rank,
            pid=None,
            outcome=Outcome.NODE_LOST,
            message=part.lost,
            happened_at=part.lost_at,
            host=part.place,
        )
        for rank in range(nproc)
        if all(end.rank != first + rank for end in known)
    ]
    own = GroupEnd("", nproc, failures=tuple(known), ended=tuple(lost))
    return own if known or not part.lost_at else own.__replace__(failures=tuple(lost), ended=())


def ended_unasked(end: GroupEnd) -> GroupEnd:
    """Give the end of a node's group that the driver had not asked to end.

    If its ranks were ended all the same, that is a failure of the job, whoever did it.
    """
    if end.failures or not end.ended:
        return end
    note = "its ranks were ended on that node, and not by this job [P419]"
    return end.__replace__(failures=end.ended, ended=(), notes=(*end.notes, note))


def _together(parts: Sequence[NodePart], out: Collection[int]) -> list[text.Together]:
    """Say where the ranks of all nodes were, except those in `out`, grouped by place."""
    groups: list[text.Together] = []
    for part in parts:
        for each in part.stacks:
            ranks = tuple(rank for rank in each["ranks"] if rank not in out)
            within = str(each.get("within", ""))
            place = str(each["said"]), ranks, within, bool(each.get("calls"))
            groups += [text.Together(*place)] if ranks else []
    return merge.joined(groups)


def _blame_the_odd_one(
    groups: Sequence[text.Together], failures: list[RankEnd], ended: list[RankEnd]
) -> None:
    """Blame a hang on the rank, on whichever node, that is at a place of its own.

    The others wait for it. A node knows its own ranks only, and it is chance which node notices
    the hang first.
    """
    if not failures or failures[0].outcome is not Outcome.HUNG:
        return
    odd = merge.odd_of([each for each in groups if each.said.startswith(PLACES)])
    known = {end.rank: end for end in (*failures, *ended)}
    cause = first = failures[0]
    if odd is not None and odd.ranks[0] in known:
        why = first.message.partition("; it ")[0]
        cause = known[odd.ranks[0]].__replace__(
            outcome=Outcome.HUNG, message=f"{why}; it {odd.said}", happened_at=first.happened_at
        )
    waited = [e for e in failures if e.outcome is Outcome.HUNG and e.rank != cause.rank]
    failures[:] = [cause, *(e for e in failures if e not in waited and e.rank != cause.rank)]
    ended[:] = [
        *(e for e in ended if e.rank != cause.rank),
        *(e.__replace__(outcome=Outcome.SIGNALLED, message="") for e in waited),
    ]


def ranks_of(parts: Sequence[NodePart], work: Work) -> list[dict[str, Any]]:
    """Give the ranks of all nodes, with their numbers in the job; keys as `Group.look` has them.

    Besides, host: the name of the machine.
    """
    found: list[dict[str, Any]] = []
    for node in range(work.nodes):
        part = parts[node] if node < len(parts) else None
        known = {int(rank["rank"]): rank for rank in part.looked} if part is not None else {}
        for local in range(work.size(node)):
            rank = {**NOTHING_KNOWN, **known.get(local, {})}
            if part is not None and part.lost and part.end is None:
                rank |= {"state": "LOST", "exit": "its node is lost", "ended": Ended.LOST.name}
            host = part.host if part is not None else ""
            found.append({**rank, "rank": work.first(node) + local, "host": host})
    return found


def cause_of(parts: Sequence[NodePart]) -> str | None:
    """Say what failed first, as far as it is known; None if nothing has."""
    failures: list[tuple[int, str]] = []
    for part in parts:
        end = part.failure
        if end is not None:
            failures.append((end.happened_at, f"rank {end.rank} {what_happened(end)}"))
        elif part.lost_at:
            failures.append((part.lost_at, f"node {part.node} was lost: {part.lost}"))
    return min(failures)[1] if failures else None
