"""Where a group's ranks were when it failed, and where they are now: stacks that its agent takes.

The news that a rank has reached its program may come after the failure of another one, on a busy
machine. So ranks of which that is not known are looked at as well, and told of if they are in their
program.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from procession.machine.link import AgentLink
from procession.machine.ranks import Ranks
from procession.rules.tables import Worker
from procession.system.threads import Errands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.agent.stacks import Taken
    from procession.explain.stacks.text import Stack

    Done = Callable[[list[Taken]], None]

_looks = itertools.count(1)  # an agent goes from group to group: no two may be alike
FRESH_NS = 1_000_000_000


class LastLook:
    """The stacks of a group's ranks. For the loop's thread.

    file: the path of those of the last look, "" where there is none.
    """

    def __init__(self, ranks: Ranks, link: AgentLink, disk: Errands) -> None:
        self._ranks = ranks
        self._link = link
        self._disk = disk
        self._asked: dict[int, Done] = {}
        self._closed = False
        self.begin_attempt()

    @property
    def first(self) -> int:
        """The number that rank 0 has in the whole job."""
        return self._ranks.spec.node.first(self._ranks.spec.nproc)

    def begin_attempt(self) -> None:
        """Forget what was seen in the attempt before."""
        self.file = ""
        self._taken: list[Taken] = []
        self._taken_at = 0
        self._unsure = set[int]()  # of which it was not known that they are in their program
        self._read: list[Stack] | None = None

    def ask_for_stacks(self, seconds: float, done: Done) -> None:
        """Have the stacks of all that have a process taken, within `seconds`; none after `close`.

        `done` is called once, now or later.
        """
        if self._closed or self._link.left:
            done([])
            return
        which = next(_looks)
        self._asked[which] = done
        self._link.ask("look", which, seconds)

    def take_stacks(
        self, which: int, attempt: int, said: Sequence[tuple[int, int, str, str, bytes, bool]]
    ) -> None:
        """Take the stacks that the agent has taken. which: the look, 0 for that of a failure."""
        taken: list[Taken] = []
        try:
            from procession.agent.stacks import Taken

            taken = [Taken(*each) for each in said]
        except (ImportError, OSError):
            pass  # no descriptor is left to import with
        if which:
            if (done := self._asked.pop(which, None)) is not None:
                done(taken)
        elif attempt == self._ranks.life.attempt:
            ranks = self._ranks.life.ranks
            self._unsure = {t.rank for t in taken if ranks[t.rank].state is Worker.STARTING}
            self.keep(taken)

    def keep(self, taken: list[Taken]) -> None:
        """Keep these stacks as the last look of this attempt, and write them down."""
        self._taken, self._taken_at, self._read = taken, time.monotonic_ns(), None
        if taken and self._ranks.resources.run_dir.kept and self.stacks:
            from procession.explain.stacks.merge import whole

            attempt, text = self._ranks.life.attempt, whole(self.stacks)

            def write() -> None:
                path = self._ranks.resources.run_dir.write_stacks(attempt, text)
                if attempt == self._ranks.life.attempt:
                    self.file = path

            self._disk.do_later("writing stacks.txt", write)

    @property
    def fresh(self) -> bool:
        """Whether what was seen is so new that it need not be looked at again."""
        return time.monotonic_ns() - self._taken_at < FRESH_NS

    @property
    def stacks(self) -> list[Stack]:
        """What was seen of ranks at the last look of this attempt, in their order."""
        if not self._taken:
            return []
        if self._read is None:
            try:
                from procession.explain.stacks.text import stack_of
            except (ImportError, OSError):
                return []
            read = [
                stack_of(self.first + t.rank, t.pid, t.state, t.letter, t.text) for t in self._taken
            ]
            self._read = [s for s in read if s.frames or s.rank - self.first not in self._unsure]
        return self._read

    def drop(self) -> None:
        """Give an empty list to all that still wait."""
        asked, self._asked = self._asked, {}
        for done in asked.values():
            done([])

    def close(self) -> None:
        """Look no more."""
        self._closed = True
        self.drop()
