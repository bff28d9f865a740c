"""What is known of a group on several machines, also by asking their node processes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from procession.driver.driver import MARGIN, Driver
from procession.engines.contract import Engine
from procession.engines.jobstate import JobState
from procession.engines.lifecycle import JobLife
from procession.engines.outcome import NodePart
from procession.engines.questions import Questions
from procession.engines.roster import Roster
from procession.engines.signalled import orderly_sigterm
from procession.engines.work import Work
from procession.explain.report import what_happened
from procession.rules.tables import Ended, Phase
from procession.system.threads import Latch
from procession.values.errors import RankEnd
from procession.values.exit import Exit
from procession.values.policy import StopRequest
from procession.values.program import Program
from procession.values.spec import Spec

Look = dict[str, Any]

LOOK_SECONDS = 0.5  # for node processes to look at their ranks
TIMES = ("started_at", "beat_at")


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

    def waited_for(self, done: Latch) -> AbstractContextManager[None]:
        """Have SIGTERM to this program stop the run first."""
        stop, ended = self.request_stop, done.wait
        return orderly_sigterm(lambda: stop(StopRequest()), lambda: ended(self.longest()))

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
        now = time.time()
        kill_at: list[float] = []
        for node, answer in answers.items():
            if answer and node < len(parts):
                ahead = float(answer["now"]) - now  # of its clock, as far as one answer shows
                parts[node].looked = [_moved(rank, ahead) for rank in answer["ranks"]]
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
    """Give the ranks of all nodes, with their numbers in the job; keys as `looking` has them.

    Besides, host: the name of the machine.
    """
    found: list[Look] = []
    for node in range(work.nodes):
        part = parts[node] if node < len(parts) else None
        known = {int(rank["rank"]): rank for rank in part.looked} if part is not None else {}
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
