"""Finds ranks that hang: those that stopped beating, and groups in which nothing moves any more.

Theory of operation. That nothing happens is no event. So there is one timer, for the earliest time
at which a limit can be exceeded: for a rank that beats, that long after its last beat; for one that
has never beaten, that long after now, since it might begin. When the timer fires, the board is
looked at once, which costs the same after ten beats as after millions. Files do not say when they
were written to, only that they were since the last look: they are looked at four times in a limit.

A rank is judged by its beats from its first one on. The end of its program counts as a beat and as
output; after it, a process that does not end is judged in the same way. Output is judged for the
group as a whole: it hangs when no rank has written anything for so long.

Where no rank has ever beaten, the limit of beats is one for places. Ranks are looked at four times
in it; a look that finds one of them at another place than before, or that it has computed and come
back to Python in between, is a sign that the group works. So are child processes that compute, and
other threads while the main thread waits in the standard library, as for them; not while it is in
a package: the threads of communication libraries spin while they wait. One native call that takes
longer than the limit looks like a hang, whatever it does; a loop that computes in Python for ever
does not.

Ranks that wait for the one that hangs stop beating or writing, too, and which of them stopped first
is chance. So if several have stopped, their stacks show which rank to blame: the one that is where
no other is, or the only one that is stopped or in uninterruptible sleep; if there is none, the one
that has been silent for the longest time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from procession.machine.lastlook import LastLook
from procession.machine.ranks import Ranks
from procession.prepare.resources import Beat
from procession.rules.tables import Phase, Worker
from procession.system.processes import Ran, is_dying, run_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.agent.stacks import Taken
    from procession.output.activity import Activity

HANG_SECONDS = 0.7  # for stacks, which show the cause
SHARE_EVERY = 1.0  # seconds between two looks at files that other machines wait for
SHARED_LATE = 3.0  # seconds after which news of other machines have come at the latest
DEATH_NS = 1_000_000_000  # for news of a death to come
DEATH_EVERY = 0.05  # seconds between two looks whether they have
LOOKS = 4  # at files and places, in the time of a limit
EVERY = 5.0  # seconds between two looks at places, at least
# Who has run for these parts of the time between two looks has computed: a main thread, or others.
MAIN_BUSY, BUSY = 0.0002, 0.01
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
        self._debugged = False  # nothing is a hang meanwhile
        self._debugged_until = 0
        # When processes were seen to die; each by its rank, and when it began.
        self._dying: dict[tuple[int, int], int] = {}
        # When ranks wrote last, in ns of the monotonic clock: those of other machines, as far as
        # is known, and those of this one when they were looked at last.
        self._elsewhere = 0
        self._here = 0
        # By rank: where it was seen, and for how long it had run after that.
        self._places: dict[int, tuple[object, Ran]] = {}
        self._moved_at = 0  # when a look last found a sign of life
        self._looked_at = 0

    def share_activity(self, elsewhere: int) -> int:
        """Take note of when ranks of other machines wrote last; gives when those of this one did.

        Both in nanoseconds of the monotonic clock, 0 for unknown. To be called first before the
        group is started; from any thread.
        """
        self._elsewhere = elsewhere
        return self._here

    def debugs(self, *, debugs: bool) -> None:
        """Take note that some rank of the group is stopped by its debugger, or none is any more."""
        self._debugged, self._debugged_until = debugs, time.monotonic_ns()

    def begin_attempt(self) -> None:
        """Watch the ranks of an attempt that begins."""
        limits = [s for s in (self._hang.timeout, self._hang.silence) if s is not None]
        if limits:
            from procession.output.activity import Activity

            self._activity = Activity(self._ranks.resources.streams)
        if self._hang.silence is not None:
            limits.append(self._look_every(self._hang.silence))
        if self._hang.timeout is not None:
            limits.append(max(self._hang.timeout / LOOKS, EVERY))
        self._looking = False
        self._dying.clear()
        self._places, self._moved_at, self._looked_at = {}, 0, 0
        if limits:
            self._ranks.loop.after(self, min(limits), self._check)

    def _check(self) -> None:
        if self._ranks.life.phase not in WATCHED or self._looking:
            return
        now = time.monotonic_ns()
        if self._debugged:
            self._ranks.loop.after(self, SHARE_EVERY, self._check)
            return
        waits = [w for w in (self._check_beats(now), self._check_silence(now)) if w is not None]
        if waits and self._ranks.life.phase in WATCHED:
            self._ranks.loop.after(self, max(0.001, min(waits)), self._check)

    def _age(self, at: int, now: int) -> float:
        """Give the seconds since a moment, without those in which ranks were stopped with us.

        Before and while a rank is debugged, others wait for it: that does not count.
        """
        at = max(at, self._debugged_until)
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
            return self._check_places(now, limit)
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

    def _check_places(self, now: int, limit: float) -> float | None:
        """Have ranks looked at, if it is time for that; gives the seconds until it is."""
        every = max(limit / LOOKS, EVERY)
        if self._elsewhere and self._hang.silence is not None:
            return limit  # other machines tell of their output only
        if self._ranks.life.phase is not Phase.RUNNING or not self._working():
            return every
        if (left := every - (now - self._looked_at) / SECOND) > 0:
            return left
        self._looking, self._looked_at = True, now
        used = run_seconds(r.pid for r in self._ranks.records if r.pid is not None)

        def seen(taken: list[Taken]) -> None:
            self._looking = False
            if self._ranks.life.phase not in WATCHED:
                return
            now = time.monotonic_ns()
            if self._has_moved(taken, used, every):
                self._moved_at = now
            written = self._written(now) if self._activity is not None else {}
            moved = max(self._moved_at, *written.values(), 0)
            if self._elsewhere:  # what is known of others is some seconds old
                self._here = moved
                moved = max(moved, self._elsewhere + int(SHARED_LATE * SECOND))
            working, age = self._working(), self._age(moved, now)
            left: float | None = every
            if age >= limit and working:
                oldest = min(working, key=lambda r: (written.get(r, 0), r))
                why = f"nothing has moved for {age:.3g} s"
                left = self._blame(oldest, working, lambda _: why, limit, taken)
            if left is not None:
                self._ranks.loop.after(self, left, self._check)

        self._last_look.ask_for_stacks(HANG_SECONDS, seen)
        return None

    def _has_moved(self, taken: list[Taken], used: Mapping[int, Ran], seconds: float) -> bool:
        """Whether a rank works, as two looks show that are so far apart.

        used: for how long ranks had run before this look, by pid. What the looks themselves take of
        a rank is not counted.
        """
        from procession.explain.stacks.text import in_standard, read_dump

        before, self._places = self._places, {}
        after = run_seconds(each.pid for each in taken)
        moved = len(before) != len(taken)
        for each in taken:
            frames = read_dump(each.text.decode(errors="replace"))
            place = frames or each.state
            self._places[each.rank] = place, after.get(each.pid, Ran())
            known, then = before.get(each.rank, (None, Ran()))
            now = used.get(each.pid, Ran())
            main = now.main - then.main > MAIN_BUSY * seconds
            own, others = (now.own - then.own) / seconds, (now.others - then.others) / seconds
            computes = (main or own > BUSY) and (each.ran or not each.text)
            serves = own > BUSY and in_standard(frames)
            moved = moved or place != known or computes or serves or others > BUSY
        return moved

    def _written(self, now: int) -> dict[int, int]:
        """Give when ranks showed last that they work by what they wrote, at their start or end."""
        assert self._activity is not None
        began = max(record.started_at for record in self._ranks.records)
        attempts = [record.attempt for record in self._ranks.records]
        looked = self._activity.last_written(now, attempts).items()
        return {r: self._active_at(r, max(began, at)) for r, at in looked}

    def _check_silence(self, now: int) -> float | None:
        limit = self._hang.silence
        if limit is None or self._activity is None or self._ranks.life.phase not in WATCHED:
            return None
        if self._ranks.life.phase is Phase.STARTING:
            return self._look_every(limit)
        written = self._written(now)
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
        self,
        oldest: int,
        stopped: Collection[int],
        why: Callable[[int], str],
        limit: float,
        taken: list[Taken] | None = None,
    ) -> float | None:
        """Say that one of the ranks that have stopped hangs; gives when to look again, in seconds.

        oldest: the one to blame, if their stacks do not show it. taken: their stacks, if they were
        just taken. None: it will look by itself.
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
        if taken is not None:
            seen(taken)
        else:
            self._last_look.ask_for_stacks(HANG_SECONDS, seen)
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
