"""Whether an attempt of a job, or a single rank of it, starts again: the driver decides.

Theory of operation. The driver has the only `Decider` of a job, so that restarts count once for all
nodes, and `on_failure` is called in its process, with the numbers that ranks have in the job. Where
single ranks start again (`Restart.single`), the group on a node asks before each restart: its node
process sends `restart` with the end of the rank, and takes `decided`. If the link is lost
meanwhile, or the job ends, the node process ends its ranks, and its group waits for no answer any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from procession.driver.deciding import Decider, Done, said_of
from procession.engines.outcome import NodePart, of_job
from procession.engines.plain import rank_end
from procession.engines.work import Work
from procession.rules.restarting import Decision
from procession.system.eventloop import EventLoop
from procession.system.threads import Errands
from procession.values.errors import GroupEnd, Outcome


class JobRestarts:
    """Decides in the thread of the driver's loop, and calls back there."""

    def __init__(
        self,
        work: Work,
        on_failure: Callable[[GroupEnd], object] | None,
        handlers: Errands,
        loop: EventLoop,
    ) -> None:
        self._work = work
        self._decider = Decider(work.restart, on_failure, handlers, loop)

    def count(self, used: int) -> None:
        """Take note of restarts that there were before this driver."""
        self._decider.count(used)

    @property
    def none_left(self) -> bool:
        """Whether no attempt follows one that fails from now on, however it fails."""
        return self._decider.none_left

    @property
    def notes(self) -> list[str]:
        """What the report says about restarts, and why there is no further one."""
        return self._decider.notes

    def is_asked_about(self, end: GroupEnd) -> bool:
        """Whether an attempt that ended so may be followed by another one.

        Where single ranks start again, that was decided when the rank failed; only the loss of a
        node is still to be decided about.
        """
        single = self._work.restart.single
        causes = end.failures[:1]
        return any(not single or cause.outcome is Outcome.NODE_LOST for cause in causes)

    def decide(self, end: GroupEnd, began: int, done: Done) -> None:
        """Decide after an attempt that failed.

        began: when all ranks ran, in nanoseconds, 0 if they never did.
        """
        uptime = (end.failures[0].happened_at - began) / 1e9 if began else None
        self._decider.decide(end, uptime, None, done)

    def decide_for_rank(
        self,
        part: NodePart,
        world: int,
        fields: Mapping[str, Any],
        done: Callable[[GroupEnd, Decision], None],
    ) -> None:
        """Decide what a node process asks. world: how many ranks the job has.

        Raises ValueError, KeyError or TypeError if it is malformed.
        """
        failed = of_job(part, rank_end(fields["end"]))
        uptime = None if fields["uptime"] is None else float(fields["uptime"])
        attempt = int(fields["life"])
        end = GroupEnd(self._work.spec.name, world, attempt=attempt, failures=(failed,))
        self._decider.decide(end, uptime, failed.rank, lambda decided: done(end, decided))

    def take(self, decided: Decision, attempt: int | None) -> str:
        """Take note of a decision that is carried out; gives a restart in words, "" for none.

        attempt: the one that failed, None if a single rank did.
        """
        self._decider.take(decided)
        return said_of(decided, attempt) if decided.again else ""
