"""Whether a failed group or rank starts again, and when: a decision, without clock or process."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection

from procession.values.base import Value
from procession.values.errors import GroupEnd, Outcome, RankEnd
from procession.values.policy import Restart


class Decision(Value):
    """What is to be done after a failure.

    again: start again. delay: seconds to wait before that. why: if it does not start again although
    restarts are allowed, the reason, in words. head: what failed, in words. count: which restart it
    is, in words.
    """

    again: bool
    delay: float = 0.0
    why: str = ""
    head: str = ""
    count: str = ""


class Restarts:
    """The decisions of one group: its rules, and what was decided so far.

    chance: gives a number from 0 to 1, for the jitter.
    """

    def __init__(self, rules: Restart, chance: Callable[[], float] = random.random) -> None:
        self._rules = rules
        self._chance = chance
        self._at: deque[float] = deque()
        self._in_a_row: dict[int | None, int] = {}
        self._place: dict[int | None, str] = {}
        self._lost = 0
        self.count = 0

    def add(self, used: int, now: float) -> None:
        """Count restarts that others have decided."""
        self._at.extend([now] * used)
        self.count += used

    def decide(
        self,
        now: float,
        uptime: float | None,
        place: str,
        codes: Collection[int],
        rank: int | None = None,
    ) -> Decision:
        """Decide after a failure; counts the restart if there is one.

        now: seconds of any clock that does not go back. uptime: seconds for which all ranks had
        run, or this one; None if they never did. place: where it failed, in words, equal for
        failures in the same place. codes: exit codes of the ranks that failed. rank: the single
        rank that failed, None for the group.
        """
        rules = self._rules
        useful = not rules.min_uptime or (uptime is not None and uptime >= rules.min_uptime)
        before, self._place[rank] = self._place.get(rank), "" if useful else place
        if not rules.max:
            return Decision(False)
        if final := sorted(set(codes) & set(rules.never)):
            return Decision(False, why=f"exit code {final[0]} forbids a restart")
        if not useful and before == place and place:
            return Decision(
                False,
                why=f"it failed twice at the same location ({place}) within "
                f"{rules.min_uptime:g} s of its start",
            )
        within = ""
        if rules.window is not None:
            within = f" within {rules.window:g} s"
            while self._at and self._at[0] <= now - rules.window:
                self._at.popleft()
        if len(self._at) >= rules.max:
            return Decision(False, why=f"{rules.max} of {rules.max} restarts are used{within}")
        self._at.append(now)
        self.count += 1
        nth = self._in_a_row[rank] = 0 if useful and rules.min_uptime else self._nth(rank)
        delay = min(rules.longest, rules.backoff * 2.0 ** min(nth, 60))
        return Decision(
            True,
            delay * (1 + rules.jitter * (2 * self._chance() - 1)),
            count=f"restart {len(self._at)} of {rules.max}{within}",
        )

    def decide_for_lost_node(self) -> Decision:
        """Decide after an attempt that ended by the loss of nodes, of one or of several.

        Only where these attempts are counted apart from those that ended by failures of ranks.
        """
        self._lost += 1
        most = self._rules.node_losses or 0
        if self._lost <= most:
            return Decision(True)
        used = f"{most} of {most} restarts after lost nodes are used"
        return Decision(False, why=used if most else "a lost node forbids a restart")

    @property
    def none_left(self) -> bool:
        """Whether every further decision, about whatever failure, is that nothing starts again."""
        rules = self._rules
        used = not rules.max or (rules.window is None and len(self._at) >= rules.max)
        return used and self._lost >= (rules.node_losses or 0)

    def _nth(self, rank: int | None) -> int:
        """Give how many restarts there were since an attempt was useful."""
        return self._in_a_row.get(rank, -1) + 1


def place_of(end: RankEnd) -> str:
    """Say what failed and in which line, without details that differ from run to run."""
    if end.outcome is Outcome.SIGNALLED:
        return str(end.exit)
    what = end.type_name or (end.outcome.value if end.announced is None else "")
    if not what or end.outcome is Outcome.EXITED:
        code = end.exit.code if end.announced is None else end.announced
        what = f"exit code {code}"
    for line in reversed(end.traceback.splitlines()):
        if line.lstrip().startswith('File "'):
            file, _, rest = line.strip()[6:].partition('", line ')
            number = rest.partition(",")[0]
            return f"{what} in {file.rpartition('/')[2]}:{number}"
    return what


def codes_of(end: GroupEnd) -> set[int]:
    """Give the exit codes of the ranks that failed."""
    found = {e.exit.code if e.announced is None else e.announced for e in end.failures}
    return {code for code in found if code is not None}
