"""The messages between a template and the ranks of one test, until their group has ended.

Ranks that are kept (`method="keep"`) are done when all have reported the outcome of the test; their
group goes on. `broken` says why it cannot be used for the next test.
"""

from __future__ import annotations

import selectors
import signal
import time
from functools import partial

from procession.explain.report import what_happened
from procession.explain.stacks.merge import format as format_stacks
from procession.pytest import processes
from procession.pytest.stackframes import noted
from procession.pytest.verdict import place_of_failure
from procession.values.errors import Outcome, ProcessionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pytest.ranks import Ranks
    from procession.pytest.wire import Line

    Told = dict[str, Any]

PATIENCE = 0.3  # seconds that the others have after the first failure, to fail by themselves
MORE_PATIENCE = 5.0  # seconds that those have who do not wait for anything, but compute
LOOK_AGAIN = 0.1  # seconds until it is seen again who does
LOST = 2.0  # seconds that the end of a rank has to be heard of when its line has ended
LINGER = 30.0  # seconds that a rank may take to end after its test
LINGER_FOR_THREADS = 2.0  # seconds that its threads may go on then
YOURS = "yours"  # what pytest says when a rank may have the terminal
LONGEST_WAIT = 3600.0  # seconds that a selector is asked for; the kernel takes 24 days at most
GRACE = 1.0  # seconds from SIGTERM to SIGKILL, for what is ended


class Conversation:
    """The messages between a template and the ranks of one test, until the group has ended.

    line: to pytest's process. terminal: what the rank is given that failed first, () if none is.
    began: when the ranks were asked to run the test, by the monotonic clock.
    """

    def __init__(
        self,
        line: Line,
        ranks: Ranks,
        request: Told,
        began: float,
        terminal: tuple[int, ...],
    ) -> None:
        self._line = line
        self._of = ranks
        self._group = ranks.group
        self._terminal = terminal
        self._keep: bool = request["method"] == "keep"
        self.broken = ""
        self._size: int = request["nproc"]
        self._ranks: list[Told] = [
            {"reports": [], "done": False, "failed_at": 0, "left": []} for _ in range(self._size)
        ]
        self._gathering: dict[int, bytes] = {}
        self._debugger: int | None = None  # the rank that may have the terminal
        self._debugging = False
        self._select = selectors.DefaultSelector()
        limit: float = request["timeout"]
        self._deadline = began + limit if limit else None
        self._end_others_at: float | None = None
        self._patient_until = 0.0
        self._gone_by: float | None = None
        self._ending = False
        self._stacks: list[Told] = []
        self._came: Told = {"timeout": False, "lingered": False, "left": [], "stopped": False}
        self._is_over = False

    def held(self) -> Told:
        """Hear all ranks to their end; gives what came of it."""
        select = self._select
        try:
            select.register(self._of.over, selectors.EVENT_READ, self._over)
            select.register(self._of.source, selectors.EVENT_READ, self._let_in)
            select.register(self._line, selectors.EVENT_READ, self._hear_pytest)
            for rank in self._of.lines:
                self._listen_to(rank)
            while not self._is_over and not self._is_settled():
                self._look_at_clock()
                for key, _ in select.select(self._seconds_left()):
                    key.data()
            if self._is_over:
                self._let_in()
                for rank in list(self._of.lines):
                    self._hear(rank)
            return self._result()
        finally:
            select.close()

    def _is_settled(self) -> bool:
        """Whether ranks that are kept have come to the end of the test, all of them."""
        return self._keep and not self._ending and all(each["done"] for each in self._ranks)

    def _over(self) -> None:
        self._is_over = True

    # -- what is heard

    def _let_in(self) -> None:
        for rank in self._of.let_in():
            self._listen_to(rank)

    def _listen_to(self, rank: int) -> None:
        self._select.register(self._of.lines[rank], selectors.EVENT_READ, partial(self._hear, rank))

    def _hear_pytest(self) -> None:
        messages, open_ = self._line.arrived()
        if not open_:
            self._select.unregister(self._line)
        if open_ and messages == [YOURS] and self._debugger is not None:
            self._of.reply(self._debugger, True, self._terminal)
        elif messages or not open_:
            self._came["stopped"] = True
            if open_ and not self._ending:
                self._end()
            else:  # nobody is there to be told where the ranks were
                self._ending = True
                self._group.kill(wait=False)

    def _hear(self, rank: int) -> None:
        line = self._of.lines.get(rank)
        if line is None:
            return
        messages, open_ = line.arrived()
        for kind, value in messages:
            self._take(rank, kind, value)
        if not open_:
            self._select.unregister(line)
            del self._of.lines[rank]
            line.close()
            if not self._ranks[rank]["done"]:
                self._ranks[rank]["silent_at"] = time.monotonic_ns()
                if self._end_others_at is None:
                    self._end_others_at = time.monotonic() + LOST

    def _take(self, rank: int, kind: str, value: Any) -> None:
        told = self._ranks[rank]
        if kind == "report":
            told["reports"].append(value)
        elif kind == "failed":
            told["failed_at"] = value
            if self._end_others_at is None:
                self._end_others_at = time.monotonic() + PATIENCE
                self._patient_until = time.monotonic() + MORE_PATIENCE
        elif kind == "done":
            told.update(value, done=True)
            self._answer_gathering()
            if all(each["done"] for each in self._ranks):
                threads = any(each["threads"] for each in self._ranks)
                self._gone_by = time.monotonic() + (LINGER_FOR_THREADS if threads else LINGER)
                self._note_orphans(rank)
            self._of.reply(rank, None)  # so the last rank, and all below, is there until now
        elif kind == "gather":
            self._gathering[rank] = value
            self._answer_gathering()
        elif kind == "terminal":
            self._lend_terminal(rank)
        elif kind == "debugged":
            self._debugging = False
            self._end_others_at = time.monotonic() + PATIENCE
            self._patient_until = time.monotonic() + MORE_PATIENCE
            self._deadline = None  # what was debugged has had its time
            self._line.send(("debugged", rank))

    def _lend_terminal(self, rank: int) -> None:
        """Give the terminal to the first rank that asks for it, when pytest has let go of it."""
        if self._ending or self._debugger not in (None, rank) or not self._terminal:
            self._of.reply(rank, False)
            return
        self._debugger = rank
        self._debugging = True
        self._line.send(("debug", self._group.pids().get(rank, 0)))

    def _answer_gathering(self) -> None:
        waiting, done = self._gathering, [r for r, each in enumerate(self._ranks) if each["done"]]
        if not waiting:
            return
        if len(waiting) == self._size:
            answer: Any = [waiting[rank] for rank in range(self._size)]
        elif done:
            answer = f"rank {done[0]} has ended its test without gather"
        else:
            return
        self._gathering = {}
        for rank in waiting:
            self._of.reply(rank, answer)

    def _note_orphans(self, rank: int) -> None:
        """Name the processes that ranks have put into the background: nothing may be left.

        They are children of the forkserver then, as `rank` is, which is still there.
        """
        pids = self._group.pids()
        server = processes.parent_of(pids.get(rank, 0))
        if not server:
            return
        known = set(pids.values())
        for told in self._ranks:  # what is to end with a rank may take a little longer than it
            known.update(told["helpers"])
        self._came["left"] += processes.left_behind(server, known)

    # -- what is done

    def _seconds_left(self) -> float | None:
        if self._ending or self._debugging:
            return None
        times = [t for t in (self._deadline, self._end_others_at, self._gone_by) if t is not None]
        if not times:
            return None
        return min(max(0.0, min(times) - time.monotonic()), LONGEST_WAIT)

    def _look_at_clock(self) -> None:
        if self._ending or self._debugging:
            return
        now = time.monotonic()
        if self._gone_by is not None:
            self._deadline = self._end_others_at = None
        if self._gone_by is not None and now >= self._gone_by:
            self._came["lingered"] = True
            self._end()
        elif self._end_others_at is not None and now >= self._end_others_at:
            if now < self._patient_until and self._others_compute():
                self._end_others_at = now + LOOK_AGAIN
            else:
                self._end(signal.SIGTERM)
        elif self._deadline is not None and now >= self._deadline:
            self._came["timeout"] = True
            self._end()

    def _others_compute(self) -> bool:
        """Whether a rank that is not done is on its way: on a busy machine that takes longer."""
        pids = self._group.pids()
        undone = [rank for rank, told in enumerate(self._ranks) if not told["done"]]
        return any(processes.state_of(pids.get(rank, 0)) in ("R", "D") for rank in undone)

    def _end(self, number: int = signal.SIGKILL) -> None:
        """Note where the ranks are, and end them."""
        self._ending = True
        try:
            self._stacks = self._group.stacks(1.0)
        except ProcessionError:
            self._stacks = []
        if number == signal.SIGKILL:
            self._group.kill(wait=False)
        else:
            self._group.stop(wait=False)

    # -- what came of it

    def _result(self) -> Told:
        came, end = self._came, self._group.end
        if end is not None:
            stacks = self._stacks or self._group.stacks_of_failure()
            stacks = noted(stacks, self._ranks)
            if stacks and (came["timeout"] or came["lingered"] or came["stopped"]):
                came["stacks"] = format_stacks(stacks)
            for each in end.failures:
                told = self._ranks[each.rank]
                told["crash"] = what_happened(each)
                if each.outcome is Outcome.NO_VALUE:
                    told["crash"] = "exited with code 0 in its test"
                told["crashed_at"] = each.happened_at
            for rank, told in enumerate(self._ranks):
                if not told["done"]:
                    told["output"] = self._of.output_of(rank)
            silent = [told for told in self._ranks if "silent_at" in told]
            known = end.failures or any(told["failed_at"] for told in self._ranks)
            if silent and not (known or came["timeout"] or came["stopped"]):
                told = min(silent, key=_silent_at)
                told["crash"] = "lost its line to the launcher of the test"
                told["crashed_at"] = told["silent_at"]
        came["ranks"] = self._ranks
        if self._keep:
            self.broken = came["renewed"] = self._why_broken()
        return came

    def _why_broken(self) -> str:
        """Say why no other test may run in these ranks, "" if one may."""
        if self._is_over:
            return "ranks were ended"
        if self._came["left"] or any(told["left"] for told in self._ranks):
            return "processes were left"
        if len({place_of_failure(told) for told in self._ranks}) > 1:
            return "not all ranks failed, or not in the same place"
        return ""


def _silent_at(told: Told) -> int:
    return told["silent_at"]
