"""What an agent is sent: the rules of a group, then its ranks, when what they need is there.

Theory of operation. Ranks are asked for a block at a time. Some of what one needs may take long to
get: files lie on disks, which may hang, and handlers of users give variables (`environment`).
Others of its group may be running already, so the loop must not wait for that: threads get it, and
the loop goes on when it is there. Where nothing can take long, no thread is asked. Of many ranks,
the first may have failed before the last is asked for, so the loop listens between two blocks.

The next block is asked for when the agent is about to run out of ranks to start. It holds the
descriptors of those that it was asked for, and each program that it starts gets all of them, to be
closed by its exec: of a thousand ranks, each would take a fifth longer to start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from procession.machine.link import AgentLink
from procession.machine.ranks import Ranks
from procession.output.wiring import Streams
from procession.prepare.jobs import RankJobs
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import Phase
from procession.system.threads import Errands
from procession.values.base import Record
from procession.values.program import Function
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK = 32  # ranks that are asked for at once
AHEAD = 32  # ranks without a process yet, with which the agent is busy while we ask for more


def terms_of(spec: Spec, life: Lifecycle, *, warm: bool) -> dict[str, Any]:
    """Give the rules of a group in plain values. warm: its agent is kept for a later run."""
    stop, may = spec.stop, {}
    if spec.is_python:  # commands send nothing
        from procession.prepare.results import permitted

        may = permitted(spec.program)
    return {
        "nproc": spec.nproc,
        "attempt": life.attempt,
        "patient": life.patient,
        "single": life.single,
        "python": spec.is_python,
        "function": isinstance(spec.program, Function),
        "may": may,
        "alone": spec.node.size(spec.nproc) == spec.nproc,
        "stacks": spec.hang.stacks,
        "warm": warm,
        "limits": {**vars(stop), "signal": int(stop.signal), "start": spec.hang.start},
    }


class Need(Record):
    """What a rank of an attempt gets; `fault`: why it could not be had."""

    rank: int
    attempt: int
    streams: Streams | None = None
    env: Mapping[str, str] = {}
    fault: OSError | None = None


class Starts:
    """Asks for the ranks of one group. link: to its agent.

    publish: passes on the events that were noted. disk, handlers: threads for files, and for the
    code of users.
    """

    def __init__(
        self,
        ranks: Ranks,
        jobs: RankJobs,
        link: AgentLink,
        publish: Callable[[], None],
        disk: Errands,
        handlers: Errands,
    ) -> None:
        self._ranks = ranks
        self._jobs = jobs
        self._link = link
        self._publish = publish
        self._disk = disk
        self._handlers = handlers
        self._later: set[int] = set()  # whose time has not come
        self._wanted: deque[int] = deque()
        self._getting: list[Need] = []  # what threads are about to get
        self._asked: deque[int] = deque()  # that had no process when it was looked last
        # Wanted at once: an agent whose shared set-up has failed waits for that rank alone.
        self._revived: set[int] = set()

    def all(self) -> None:
        """Ask for all ranks, as soon as can be."""
        self._wanted.extend(range(self._ranks.life.nproc))
        self.go_on()

    def again(self, rank: int, seconds: float) -> None:
        """Ask for one rank, in so many seconds."""

        def due() -> None:
            self._later.discard(rank)
            self._ranks.resources.board.forget(rank)
            self._wanted.appendleft(rank)
            self._revived.add(rank)
            self.go_on()

        self._later.add(rank)
        self._ranks.loop.after(("again", rank), seconds, due)

    def cancel(self) -> None:
        """Ask for none of those that were not asked for yet."""
        for rank in self._later:
            self._ranks.loop.cancel(("again", rank))
        self._later.clear()
        self._wanted.clear()
        self._revived.clear()
        self._getting = []

    def go_on(self) -> None:
        """Ask for more ranks, if the agent has few ahead. To be called after its messages."""
        wanted = self._wanted
        while wanted and not self._getting and self._goes_on:
            if wanted[0] not in self._revived and not self._few_are_ahead:
                return
            block = [wanted.popleft() for _ in range(min(BLOCK, len(wanted)))]
            self._revived.difference_update(block)
            needs = [Need(rank, self._ranks.records[rank].attempt) for rank in block]
            if self._ranks.resources.run_dir.kept or self._ranks.resources.environments:
                self._getting = needs
                self._get(needs)
                return
            self._open(needs)
            self._ask(needs)

    @property
    def _goes_on(self) -> bool:
        """Whether ranks that are not there yet are still to be started."""
        return self._ranks.life.phase in (Phase.STARTING, Phase.RUNNING) or self._ranks.life.waiting

    @property
    def _few_are_ahead(self) -> bool:
        """Whether the agent has almost nothing to do; it starts ranks in their order."""
        while self._asked and not self._waits(self._asked[0]):
            self._asked.popleft()
        return len(self._asked) < AHEAD

    def _waits(self, rank: int) -> bool:
        """Whether a rank that was asked for has no process yet, and is not to start anew."""
        ranks = self._ranks
        return ranks.asked[rank] and ranks.records[rank].pid is None and ranks.life.lives(rank)

    def _get(self, needs: list[Need]) -> None:
        """Have threads get what these ranks need, and go on then."""

        def take() -> None:
            if self._getting is not needs:  # they were cancelled
                self._drop(needs)
                return
            self._getting = []
            self._ask(needs)
            self.go_on()

        def come() -> None:
            if not self._ranks.loop.request(take):
                self._drop(needs)

        def ask_handlers() -> None:
            for need in needs:
                need.env = self._ranks.resources.given(need.attempt, need.rank)
            come()

        def open_files() -> None:
            self._open(needs)
            if self._ranks.resources.environments:
                self._handlers.do_later(
                    "variables that a handler of events gives", ask_handlers, always=True
                )
            else:
                come()

        self._publish()  # handlers get the event of an attempt before they are asked
        self._disk.do_later("making log files", open_files, always=True)

    def _open(self, needs: list[Need]) -> None:
        streams = self._ranks.resources.streams
        for need in needs:
            try:
                need.streams = streams.open(need.attempt, need.rank)
            except OSError as e:
                need.fault = e

    def _ask(self, needs: list[Need]) -> None:
        server, fault = self._link.server, None
        for at, need in enumerate(needs):
            try:
                if need.streams is None:
                    raise need.fault or OSError("its streams are missing")
                streams, need.streams = need.streams, None
                self._jobs.spawn(server, need.attempt, need.rank, streams, need.env)
                self._ranks.asked[need.rank] = True
                self._asked.append(need.rank)
            except OSError as e:
                self._drop(needs[at + 1 :])
                self._wanted.extendleft(other.rank for other in reversed(needs[at + 1 :]))
                fault = need, e
                break
        self._jobs.send(server)
        self._link.look_after()
        if fault is not None:  # which ends what was sent
            need, e = fault
            said = e.errno or 0, e.strerror or str(e)
            self._link.send("no start", need.rank, need.attempt, "make its streams", *said)
        if not self._wanted:
            self._jobs.all_sent(server, self._ranks.life.attempt)
        self._link.flush()

    @staticmethod
    def _drop(needs: list[Need]) -> None:
        for need in needs:
            if need.streams is not None:
                need.streams.drop()
                need.streams = None
