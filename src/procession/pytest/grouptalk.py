"""The messages between pytest's process and the ranks of one test, until their group has ended.

Ranks that are kept (`method="keep"`) are done when all have reported the outcome of the test; their
group goes on. What came of it, "renewed", says why it cannot be used for the next test.
"""

from __future__ import annotations

import os
import selectors
import time

from procession.explain.report import what_happened
from procession.explain.stacks.merge import format as format_stacks
from procession.pytest import processes
from procession.pytest.conversation import Conversation
from procession.pytest.debugging import prompt
from procession.pytest.fixtures import HAS_TERMINAL
from procession.pytest.renew import captured
from procession.pytest.stackframes import noted
from procession.pytest.verdict import place_of_failure
from procession.system.processes import state_of
from procession.values.errors import Outcome, ProcessionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pytest.ranks import RanksOfTests

    Told = dict[str, Any]

MORE_PATIENCE = 5.0  # seconds that those have who do not wait for anything, but compute
LOOK_AGAIN = 0.1  # seconds until it is seen again who does
LINGER = 30.0  # seconds that a rank may take to end after its test
LINGER_FOR_THREADS = 2.0  # seconds that its threads may go on then


class GroupTalk(Conversation):
    """The conversation with ranks of a group of ours.

    ranks: they have been asked. config: of the session.
    """

    PATIENCE = 0.3  # to fail by themselves
    LOST = 2.0  # until the end of the rank is heard of
    GONE = "lost its line to the launcher of the test"

    def __init__(self, ranks: RanksOfTests, request: Told, config: Any) -> None:
        super().__init__(ranks.lines, request)
        self._of = ranks
        self._group = ranks.group
        self._config = config
        self._keep: bool = request["method"] == "keep"
        self._debugger: int | None = None  # the rank whose failure is debugged
        self._patient_until = 0.0
        self._ending = self._stops = False  # stops: a rank has stopped for a debugger, or goes on
        self._stacks: list[Told] = []
        self._group_is_over = False

    def _begin_listening(self) -> None:
        self._select.register(self._of.over, selectors.EVENT_READ, self._over)
        self._select.register(self._of.door, selectors.EVENT_READ, self._let_in)
        self._group.driver.undebugged = "" if HAS_TERMINAL else "pytest has no terminal"
        self._select.register(self._of.stops, selectors.EVENT_READ, self._note_stops)

    def _note_stops(self) -> None:
        os.read(self._of.stops, 1 << 10)
        self._stops = True

    def _look_at_clock(self) -> None:
        stops, self._stops = self._stops, False
        if stops and self._group.driver.debugged.stopped:
            began, self._paused = time.monotonic(), True  # no time counts meanwhile
            prompt(self._config, self._of, self._hear_some)
            self._paused = self._ending
            if self._deadline is not None:
                self._deadline += time.monotonic() - began
        super()._look_at_clock()

    def _is_over(self) -> bool:
        """Whether the group has ended; or of ranks that are kept, all are done with the test."""
        kept = self._keep and not self._ending and all(told["done"] for told in self._ranks)
        return self._group_is_over or kept

    def _over(self) -> None:
        self._group_is_over = True

    # -- what is heard

    def _let_in(self) -> None:
        for rank in self._of.let_in():
            self._listen_to(rank)

    def _take_message(self, rank: int, kind: str, value: Any) -> None:
        super()._take_message(rank, kind, value)
        if kind == "report" and self._ranks[rank]["failed"]:
            self._patient_until = self._patient_until or time.monotonic() + MORE_PATIENCE
        elif kind == "done":
            if all(told["done"] for told in self._ranks):
                self._wait_for_end()
                self._note_orphans()
            self._reply(rank, None)  # so the last rank, and all below, is there until now
        elif kind == "debugs":
            first = not self._ending and self._debugger in (None, rank)
            self._debugger = rank if first else self._debugger
            self._reply(rank, first and not self._group.driver.undebugged)
        elif kind == "debugged":
            self._paused = self._ending
            self._deadline = self._end_others_at = None  # what was debugged has had its time
            self._end_others_in(self.PATIENCE)
            self._patient_until = time.monotonic() + MORE_PATIENCE

    def _wait_for_end(self) -> None:
        """Have ranks that are done with their test end, soon."""
        threads = [
            f"{t} of rank {r}" for r, told in enumerate(self._ranks) for t in told["threads"]
        ]
        self._late = "a rank did not end after its test"
        if threads:
            self._late = f"the test was over, but threads went on: {', '.join(threads[:3])}"
        self._deadline = time.monotonic() + (LINGER_FOR_THREADS if threads else LINGER)
        self._end_others_at = None

    def _note_orphans(self) -> None:
        """Name the processes that ranks have put into the background: nothing may be left.

        They are children of the agent then. The last rank is still there.
        """
        known = {*self._of.pids.values()}
        for told in self._ranks:  # what is to end with a rank may take a little longer than it
            known.update(told["helpers"])
        self._came["left"] += processes.left_behind(self._of.link.server.pid, known)

    # -- what is done

    def _end(self, late: str) -> None:
        now = time.monotonic()
        if late:
            self._came["over"] = late
            self._note_places()
            self._group.kill(wait=False)
        elif now < self._patient_until and self._others_compute():
            self._end_others_at = now + LOOK_AGAIN
        else:
            self._note_places()
            self._group.stop(wait=False)

    def _others_compute(self) -> bool:
        """Whether a rank that is not done is on its way: on a busy machine that takes longer."""
        undone = [pid for rank, pid in self._of.pids.items() if not self._ranks[rank]["done"]]
        return any(state is not None and state.letter in "RD" for state in map(state_of, undone))

    def _note_places(self) -> None:
        """Note where the ranks are, which are about to be ended."""
        self._paused = self._ending = True
        try:
            self._stacks = self._group.stacks(1.0)
        except ProcessionError:
            self._stacks = []

    def interrupted(self) -> str:
        """End the ranks in the middle of their test; says where they were."""
        if not self._ending:
            self._note_places()
        self._group.kill()
        return format_stacks(noted(self._stacks, self._ranks))

    # -- what came of it

    def _conclude(self) -> None:
        lost: str = self._of.link.lost
        if lost:
            said = "somebody has ended the process that ranks are forked from"
            self._came = {"fault": said, "renewed": lost}
            return
        if self._group_is_over:
            self._let_in()
            for rank, line in list(self._lines.items()):
                while rank in self._lines and line.poll():
                    self._hear_rank(rank)
        came, end = self._came, self._group.end
        if end is not None:
            stacks = self._stacks or self._group.driver.stacks_of_failure()
            stacks = noted(stacks, self._ranks)
            if stacks and came["over"]:
                came["stacks"] = format_stacks(stacks)
            if end.failures or came["over"] or any(told["failed"] for told in self._ranks):
                for told in self._ranks:  # that of a rank that was ended is no failure
                    told.pop("crash", None)
            for each in end.failures:
                told = self._ranks[each.rank]
                told["crash"] = what_happened(each)
                if each.outcome is Outcome.NO_VALUE:
                    told["crash"] = "exited with code 0 in its test"
                told["crashed_at"] = each.happened_at
            for rank, told in enumerate(self._ranks):
                if not told["done"]:
                    told["output"] = captured(self._of.files, rank)
        if self._keep:
            came["renewed"] = self._why_broken()

    def _why_broken(self) -> str:
        """Say why no other test may run in these ranks, "" if one may."""
        if self._group_is_over:
            return "ranks were ended"
        if self._came["left"] or any(told["left"] for told in self._ranks):
            return "processes were left"
        if len({place_of_failure(told) for told in self._ranks}) > 1:
            return "not all ranks failed, or not in the same place"
        return ""
