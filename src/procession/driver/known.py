"""What is known of a group on several machines, also by asking their node processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from procession.driver.driver import MARGIN, Driver
from procession.driver.jobend import NodePart
from procession.driver.jobstate import JobState
from procession.driver.questions import Questions
from procession.driver.roster import Roster
from procession.engines.contract import Engine
from procession.explain.report import what_happened
from procession.prepare.work import Work
from procession.rules.joblife import JobLife
from procession.rules.tables import Ended, Phase
from procession.values.errors import Exit, RankEnd
from procession.values.program import Program
from procession.values.spec import Spec

Look = dict[str, Any]

LOOK_SECONDS = 0.5  # for node processes to look at their ranks


class Known(Driver):
    """The part of a job's driver that others ask. Its fields are set by `JobDriver`."""

    distant = True
    work: Work
    engine: Engine
    life: JobLife
    state: JobState
    questions: Questions
    _roster: Roster

    @property
    def spec(self) -> Spec:
        """All ranks of the run, those of all machines."""
        return self.work.whole

    @property
    def phase(self) -> Phase:
        """Where the group is in its life."""
        return self.life.phase.shown

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""
        return self.life.attempt

    @property
    def stopper(self) -> str:
        """Which node process was told to end the run, in words."""
        return self.state.stopper

    @property
    def hosts(self) -> list[str]:
        """The names of the machines of this attempt, by node rank."""
        return [part.host for part in list(self.state.parts)]

    def longest(self) -> float:
        """Give the seconds in which a group ends once it is stopped, whatever its ranks do."""
        return super().longest() + self.spec.stop.reap + 3 * MARGIN

    def pids(self) -> dict[int, int]:
        """Give the process of each rank, on its own machine."""
        parts = list(self.state.parts)
        return {part.first + rank: pid for part in parts for rank, pid in [*part.pids.items()]}

    def exit_of(self, rank: int) -> Exit | None:
        """Give the exit status of a rank, None while it has not exited."""
        node, local = self.work.locate(rank)
        parts = self.state.parts
        return parts[node].exits.get(local) if node < len(parts) else None

    def look(self) -> Look:
        """Describe this attempt; a node that does not answer is shown as it was last seen."""
        answers = self.questions.ask("look", LOOK_SECONDS)
        parts = list(self.state.parts)
        kill_at: list[float] = []
        for node, answer in answers.items():
            if answer and node < len(parts):
                ahead = parts[node].take_look(answer)
                kill_at += [answer["kill_at"] - ahead] if answer["kill_at"] is not None else []
        return {
            "cause": cause_of(parts),
            "kill_at": max(kill_at, default=None),
            "ranks": ranks_of(parts, self.work),
            "engine": self.engine.name,
            "hosts": [part.host for part in parts],
            "links": list(self.state.encryption),
            "agents": [
                {"host": node.host, "pid": node.pid} for node in list(self._roster.nodes.values())
            ],
        }

    def stacks(self, timeout: float, *, native: bool) -> list[Look]:
        """Say where ranks are, as their node processes answer."""
        answers = self.questions.ask("stacks", timeout, seconds=timeout, native=native)
        first = self.work.first
        return [
            {**rank, "rank": first(node) + int(rank["rank"])}
            for node, ranks in sorted(answers.items())
            for rank in ranks or ()
        ]

    def error_of(self, rank: int) -> Look | None:
        """Give the error report of a rank, as `exception_of` reads it, None if it sent none."""
        node, local = self.work.locate(rank)
        parts = self.state.parts
        sent = parts[node].errors.get(str(local)) if node < len(parts) else None
        return dict(sent) if sent else None

    def returned(self) -> Iterator[tuple[int, Program, bytes | bytearray]]:
        """Give rank, program and pickled value of each function that returned."""
        for part in self.state.parts:
            for rank, body in part.values.items():
                yield part.first + rank, self.spec.program, body


def ranks_of(parts: Sequence[NodePart], work: Work) -> list[Look]:
    """Give the ranks of all nodes, with their numbers in the job; keys as `Group.look` has them.

    Besides, host: the name of the machine.
    """
    found: list[Look] = []
    for node in range(work.nodes):
        part = parts[node] if node < len(parts) else None
        known = {int(rank["rank"]): rank for rank in part.looked} if part is not None else {}
        for local in range(work.size(node)):
            rank = {**_nothing(), **known.get(local, {})}
            if part is not None and part.lost and part.end is None:
                rank |= {"state": "LOST", "exit": "its node is lost", "ended": Ended.LOST.name}
            host = part.host if part is not None else ""
            found.append({**rank, "rank": work.first(node) + local, "host": host})
    return found


def _nothing() -> Look:
    """Give the description of a rank about which nothing is known."""
    return {
        "pid": None, "state": "PENDING", "started_at": None, "exit": None, "ended": None,
        "failed": False, "last_line": "", "beats": 0, "beat_at": None, "step": None,
        "total": None, "fields": {},
    }  # fmt: skip


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
