"""Finds ranks that hang: those that stopped beating, and groups that write nothing any more.

Theory of operation. That nothing happens is no event. So there is one timer, for the earliest time
at which a limit can be exceeded: for a rank that beats, that long after its last beat; for one that
has never beaten, that long after now, since it might begin. When the timer fires, the board is
looked at once, which costs the same after ten beats as after millions. Files do not say when they
were written to, only that they were since the last look: they are looked at four times in a limit.

A rank is judged by its beats from its first one on. The end of its program counts as a beat and as
output; after it, a process that does not end is judged in the same way. Output is judged for the
group as a whole: it hangs when no rank has written anything for so long.

Ranks that wait for the one that hangs stop beating or writing, too, and which of them stopped first
is chance. So if several have stopped, their stacks show which rank to blame: the one that is where
no other is, or the only one that is stopped or in uninterruptible sleep; if there is none, the one
that has been silent for the longest time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from procession.machine.lastlook import LastLook
from procession.machine.ranks import Ranks
from procession.prepare.resources import Beat
from procession.rules.tables import Phase, Worker
from procession.system.processes import is_dying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.agent.stacks import Taken
    from procession.output.activity import Activity

HANG_SECONDS = 0.7  # for stacks, which show the cause
SHARE_EVERY = 1.0  # seconds between two looks at files that other machines wait for
SHARED_LATE = 3.0  # seconds after which news of other machines have come at the latest
DEATH_NS = 1_000_000_000  # for news of a death to come
DEATH_EVERY = 0.05  # seconds between two looks whether they have
LOOKS = 4  # at files, in the time of a limit
SECOND = 1_000_000_000
WATCHED = (Phase.STARTING, Phase.RUNNING)


class Hangs:
    """Watches the ranks of one group. hung: takes a rank that hangs, and when that was seen.

    why: why a rank was taken for hung, in words, by rank.
    """

    def __init__(self, ranks: Ranks, last_look: LastLook, hung: Callable[[int, int], None]) -> None:
        self._hang = ranks.spec.hang
        self._ranks = ranks
        self._last_look = last_look
        self._tell = hung
        self.why: dict[int, str] = {}
        self._activity: Activity | None = None
        self._looking = False  # at stacks
        # When processes were seen to die; each by its rank, and when it began.
        self._dying: dict[tuple[int, int], int] = {}
        # When ranks wrote last, in ns of the monotonic clock: those of other machines, as far as
        # is known, and those of this one when they were looked at last.
        self._elsewhere = 0
        self._here = 0

    def share_activity(self, elsewhere: int) -> int:
        """Take note of when ranks of other machines wrote last; gives when those of this one did.

        Both in nanoseconds of the monotonic clock, 0 for unknown. To be called first before the
        group is started; from any thread.
        """
        self._elsewhere = elsewhere
        return self._here

    def begin(self) -> None:
        """Watch the ranks of an attempt that begins."""
        limits = [s for s in (self._hang.timeout, self._hang.silence) if s is not None]
        if self._hang.silence is not None:
            from procession.output.activity import Activity

            self._activity = Activity(self._ranks.resources.streams)
            limits.append(self._look_every(self._hang.silence))
        self._looking = False
        self._dying.clear()
        if limits:
            self._ranks.loop.after(self, min(limits), self._check)

    def _check(self) -> None:
        if self._ranks.life.phase not in WATCHED or self._looking:
            return
        now = time.monotonic_ns()
        waits = [w for w in (self._check_beats(now), self._check_silence(now)) if w is not None]
        if waits and self._ranks.life.phase in WATCHED:
            self._ranks.loop.after(self, max(0.001, min(waits)), self._check)

    def _age(self, at: int, now: int) -> float:
        """Give the seconds since a moment, without those in which ranks were stopped with us."""
        return (now - at - self._ranks.loop.stopped_since(at)) / SECOND

    def _working(self) -> list[int]:
        """Give the ranks that could hang; not those that are dead, and whose status is not here."""
        ranks = enumerate(self._ranks.life.ranks)
        return [
            r
            for r, k in ranks
            if k.state is Worker.RUNNING and not k.awaited and k.failed_at is None
        ]

    def _active_at(self, rank: int, at: int) -> int:
        """Give when a rank showed that it works: at this time, or at its program's end."""
        return max(at, self._ranks.life.ranks[rank].reported_at)

    def _check_beats(self, now: int) -> float | None:
        """Look at the beats; gives the seconds until they are to be looked at again."""
        if (limit := self._hang.timeout) is None:
            return None
        beat = self._ranks.resources.board.beat
        beats = {r: b for r in self._working() if (b := beat(r)) is not None}
        if not beats:
            return limit
        active = {r: self._active_at(r, b.at) for r, b in beats.items()}
        rank = min(active, key=active.__getitem__)
        age = self._age(active[rank], now)
        if age < limit:
            return min(limit, limit - age)
        stopped = {r: b for r, b in beats.items() if self._age(active[r], now) >= limit / 2}

        def why(rank: int) -> str:
            age = (time.monotonic_ns() - stopped[rank].at) / SECOND
            return f"no beat for {age:.3g} s ({_last_one(stopped[rank])})"

        return self._blame(rank, stopped, why, limit)

    def _check_silence(self, now: int) -> float | None:
        limit = self._hang.silence
        if limit is None or self._activity is None or self._ranks.life.phase not in WATCHED:
            return None
        if self._ranks.life.phase is Phase.STARTING:
            return self._look_every(limit)
        began = max(record.started_at for record in self._ranks.records)
        attempts = [record.attempt for record in self._ranks.records]
        looked = self._activity.look(now, attempts).items()
        written = {r: self._active_at(r, max(began, at)) for r, at in looked}
        age = self._age(max(written.values()), now)
        working = self._working()
        self._here = max(written.values())
        if self._elsewhere:  # what is known of others is some seconds old
            age = min(age, (now - self._elsewhere) / SECOND - SHARED_LATE)
        if age < limit or not working:
            left = max(0.0, limit - age) or limit
            return min(left, self._look_every(limit))
        oldest = min(working, key=lambda r: (written[r], r))
        return self._blame(
            oldest, working, lambda _: f"no rank has written anything for {age:.3g} s", limit
        )

    def _look_every(self, silence: float) -> float:
        """Give the seconds between two looks at files."""
        every = silence / LOOKS
        return min(every, SHARE_EVERY) if self._elsewhere else every

    def _blame(
        self, oldest: int, stopped: Collection[int], why: Callable[[int], str], limit: float
    ) -> float | None:
        """Say that one of the ranks that have stopped hangs; gives when to look again, in seconds.

        oldest: the one to blame, if their stacks do not show it. None: it will look by itself.
        """
        if self._just_dies(oldest):
            return DEATH_EVERY
        if not self._hang.stacks or len(stopped) == 1:
            self._hung(oldest, why(oldest))
            return limit  # single ranks: the others go on

        def seen(taken: list[Taken]) -> None:
            self._looking = False
            if self._ranks.life.phase not in WATCHED:
                return  # the group is being ended, and ranks may have been gone
            self._last_look.keep(taken)
            from procession.explain.stacks.merge import odd_one

            odd = odd_one(self._last_look.stacks) if self._ranks.life.nproc > 1 else None
            odd = None if odd is None else odd - self._last_look.first
            rank = odd if odd is not None and odd in stopped else oldest
            if rank in self._working() and not self._just_dies(rank):
                self._hung(rank, why(rank))
            if self._ranks.life.phase in WATCHED:
                self._ranks.loop.after(self, limit, self._check)

        self._looking = True
        self._last_look.look(HANG_SECONDS, seen)
        return None

    def _just_dies(self, rank: int) -> bool:
        """Whether a rank is dead, of which nobody has told yet: that will say how it ended.

        One that takes long to die hangs, too.
        """
        now, record = time.monotonic_ns(), self._ranks.records[rank]
        if record.pid is None or not is_dying(record.pid):
            return False
        return now - self._dying.setdefault((rank, record.started_at), now) < DEATH_NS

    def _hung(self, rank: int, why: str) -> None:
        self.why[rank] = why
        self._tell(rank, time.monotonic_ns())


def _last_one(beat: Beat) -> str:
    if beat.step is None:
        return f"it had given {beat.beats}"
    of = "" if beat.total is None else f" of {beat.total:g}"
    return f"the last one at step {beat.step:g}{of}"
