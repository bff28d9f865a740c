"""Whether what has failed starts again, and when: a decision, without clock or process."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection

from procession.errors import GroupEnd, Outcome, RankEnd
from procession.policy import Restart
from procession.values import Value


class Decision(Value):
    """What is to be done after a failure.

    again: start again. delay: in so many seconds. why: if not again although restarts are asked
    for, the reason, in words.
    """

    again: bool
    delay: float = 0.0
    why: str = ""


class Restarts:
    """What has been decided so far in one group, and by which rules.

    chance: gives a number from 0 to 1, for the jitter.
    """

    def __init__(self, rules: Restart, chance: Callable[[], float] = random.random) -> None:
        self._rules = rules
        self._chance = chance
        self._at: deque[float] = deque()
        self._in_a_row: dict[int | None, int] = {}
        self._place: dict[int | None, str] = {}
        self.count = 0

    def decide(
        self,
        now: float,
        uptime: float | None,
        place: str,
        codes: Collection[int],
        rank: int | None = None,
    ) -> Decision:
        """Decide after a failure; a restart that is decided for is counted.

        now: seconds of any clock that does not go back. uptime: seconds for which all ranks had
        run, or this one; None if they never did. place: where it failed, in words; two failures
        in the same place have equal ones. codes: exit codes of the ranks that failed. rank: which
        one fails and starts again by itself, None for the group.
        """
        rules = self._rules
        useful = not rules.min_uptime or (uptime is not None and uptime >= rules.min_uptime)
        before, self._place[rank] = self._place.get(rank), "" if useful else place
        if not rules.max:
            return Decision(False)
        final = sorted(set(codes) & set(rules.never))
        if final:
            return Decision(False, why=f"exit code {final[0]} means that it is of no use")
        if not useful and before == place and place:
            return Decision(
                False,
                why=f"it failed twice in the same place ({place}) before it had run for "
                f"{rules.min_uptime:g} s",
            )
        if rules.window is not None:
            while self._at and self._at[0] <= now - rules.window:
                self._at.popleft()
        if len(self._at) >= rules.max:
            within = f" within {rules.window:g} s" if rules.window is not None else ""
            times = "once" if rules.max == 1 else f"{rules.max} times"
            return Decision(False, why=f"it was started again {times}{within}, which is the most")
        self._at.append(now)
        self.count += 1
        nth = self._in_a_row[rank] = 0 if useful and rules.min_uptime else self._nth(rank)
        delay = min(rules.longest, rules.backoff * 2.0 ** min(nth, 60))
        return Decision(True, delay * (1 + rules.jitter * (2 * self._chance() - 1)))

    def _nth(self, rank: int | None) -> int:
        """Give how many restarts there were since an attempt was useful."""
        return self._in_a_row.get(rank, -1) + 1


def place_of(end: RankEnd) -> str:
    """Say where a rank failed: what happened, and in which line; without what differs by chance."""
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


__all__ = ["Decision", "Restarts", "codes_of", "place_of"]
