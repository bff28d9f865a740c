"""The world around a `Lifecycle`: which events may really come, and what every step must keep.

A `World` carries out actions as the supervisor and the forkserver do, but without processes: it
remembers what it was asked for, and `events` lists all that may be told next. It knows a little
less than they do and so allows a little more: a rank may be ready twice, for example.
"""

from procession.lifecycle import (
    GONE,
    Arm,
    Cancel,
    Deadline,
    DeadlineKind,
    End,
    Ended,
    Lifecycle,
    Phase,
    RankEvent,
    Signal,
    Spawn,
    StopWanted,
    Sweep,
    Swept,
    Worker,
    WorkerEvent,
)

NO_PROCESS_YET = (Worker.PENDING,)
ALIVE = (Worker.STARTING, Worker.RUNNING, Worker.STOPPING, Worker.KILLING)
UNREADY = (Worker.STARTING, Worker.STOPPING, Worker.KILLING)


class World:
    """A lifecycle, and what it has asked for and not yet heard of."""

    def __init__(self, nproc, restarts=0):
        self.life = Lifecycle(nproc, restarts)
        self.stop_due = set()
        self.kill_due = set()
        self.cancel_due = self.sweep_due = False
        self.armed = {}

    def begin(self):
        actions = self.life.begin()
        self._obey(actions)
        return actions

    def tell(self, event):
        """Let an event happen. Returns the actions, which are asked for from now on."""
        if isinstance(event, Deadline):
            self.armed.pop(event.kind, None)
        elif isinstance(event, Swept):
            self.sweep_due = False
        elif isinstance(event, RankEvent):
            if event.kind is WorkerEvent.STOP_SENT:
                self.stop_due.discard(event.rank)
            elif event.kind is WorkerEvent.KILL_SENT:
                self.kill_due.discard(event.rank)
                self.stop_due.discard(event.rank)
        actions = self.life.handle(event)
        if isinstance(event, RankEvent) and self.life.ranks[event.rank].state in GONE:
            self.stop_due.discard(event.rank)
            self.kill_due.discard(event.rank)
        self._obey(actions)
        return actions

    def _obey(self, actions):
        for action in actions:
            if isinstance(action, Spawn):
                self.stop_due.clear()
                self.kill_due.clear()
                self.armed.clear()  # of the attempt before: stale, and tested apart
                self.cancel_due = self.sweep_due = False
            elif isinstance(action, Cancel):
                self.cancel_due = True
            elif isinstance(action, Signal):
                (self.kill_due if action.kill else self.stop_due).update(action.ranks)
            elif isinstance(action, Sweep):
                self.sweep_due = True
            elif isinstance(action, Arm):
                self.armed[action.deadline.kind] = action.deadline
            elif isinstance(action, End):
                self.stop_due.clear()
                self.kill_due.clear()
                self.armed.clear()
                self.cancel_due = self.sweep_due = False

    def events(self, moments, now, after):
        """List what may come next.

        moments: when a failure, or an outcome that we hear of late, may have happened.
        now: when a signal is sent. after: a time after that.
        """
        life = self.life
        if life.phase.final:
            return
        yield StopWanted()
        yield StopWanted(kill=True)
        if self.sweep_due:
            yield Swept(life.attempt)
        for kind, deadline in self.armed.items():
            yield Deadline(kind, deadline.attempt, moments[-1])
        for r, rank in enumerate(life.ranks):
            if rank.state not in GONE:
                yield from self._of_rank(r, rank, moments, now, after)

    def _of_rank(self, r, rank, moments, now, after):
        E, state = WorkerEvent, rank.state
        if state in NO_PROCESS_YET:
            yield RankEvent(E.SPAWNED, r, now)
            if self.cancel_due and not rank.reported:
                yield RankEvent(E.CANCELLED, r, now)
        if state in (*NO_PROCESS_YET, *UNREADY) and not rank.reported:
            for at in moments if rank.failed_at is None and rank.stop_at is None else (after,):
                yield RankEvent(E.SPAWN_FAILED, r, at, ok=False)
        if state in UNREADY:
            yield RankEvent(E.READY, r, now)
        if state in ALIVE:
            yield RankEvent(E.EXITED, r, after)
            for at in moments if rank.failed_at is None and rank.stop_at is None else (after,):
                yield RankEvent(E.EXITED, r, at, ok=False)
            if r in self.stop_due:
                yield RankEvent(E.STOP_SENT, r, now)
            if r in self.kill_due:
                yield RankEvent(E.KILL_SENT, r, now)
        if not rank.reported:
            yield RankEvent(E.REPORTED, r, moments[0])
            for at in moments:
                yield RankEvent(E.REPORTED, r, at, ok=False)
            if rank.stop_at is not None:
                yield RankEvent(E.REPORTED, r, after)
                yield RankEvent(E.REPORTED, r, after, ok=False)


# -- what every step must keep: (before, event, after, actions) -> whether it does


def _pairs(before, after):
    return zip(before.ranks, after.ranks, strict=True) if before.attempt == after.attempt else ()


def the_gone_stay_gone(before, event, after, actions):
    return all(
        b.state not in GONE or (a.state is b.state and a.ended is b.ended)
        for b, a in _pairs(before, after)
    )


def the_ending_is_known_when_gone(before, event, after, actions):
    return all((r.state in GONE) == (r.ended is not None) for r in after.ranks)


def a_failure_never_moves_to_a_later_time(before, event, after, actions):
    return all(
        b.failed_at is None or (a.failed_at is not None and a.failed_at <= b.failed_at)
        for b, a in _pairs(before, after)
    )


def the_cause_only_gives_way_to_an_earlier_failure(before, event, after, actions):
    if before.attempt != after.attempt or not before.failures:
        return True
    old, new = before.failures[0], after.failures[0]
    return old == new or after.ranks[new].failed_at < before.ranks[old].failed_at


def what_we_ended_is_no_failure(before, event, after, actions):
    return all(
        b.stop_at is None
        or b.failed_at is not None
        or a.failed_at is None
        or (event.kind is WorkerEvent.REPORTED and not event.ok and event.at < b.stop_at)
        for b, a in _pairs(before, after)
    )


def a_restart_comes_when_it_is_due_and_only_then(before, event, after, actions):
    due = (
        isinstance(event, Swept)
        and event.attempt == before.attempt
        and before.phase is Phase.SWEEPING
        and before.attempt < before.restarts
        and not before.stop_wanted
        and any(r.failed_at is not None for r in before.ranks)
        and not any(r.start_failed or r.state is Worker.LOST for r in before.ranks)
    )
    restarted = after.attempt == before.attempt + 1
    fresh = after.phase is Phase.STARTING and all(r.state is Worker.PENDING for r in after.ranks)
    if restarted:
        return due and fresh and not after.killing and Spawn(after.attempt) in actions
    return not due and after.attempt == before.attempt


def a_wish_to_stop_stays(before, event, after, actions):
    return after.stop_wanted == (before.stop_wanted or isinstance(event, StopWanted))


def the_verdict_says_what_happened(before, event, after, actions):
    endings = [r.ended for r in after.ranks]
    bad = any(r.failed_at is not None or r.ended is Ended.LOST for r in after.ranks)
    if after.phase is Phase.SUCCEEDED:
        return all(e is Ended.FINISHED for e in endings)
    if after.phase is Phase.STOPPED:
        return after.stop_wanted and not bad and not all(e is Ended.FINISHED for e in endings)
    return after.phase is not Phase.FAILED or bad


def a_group_ends_after_its_ranks(before, event, after, actions):
    states = [r.state for r in after.ranks]
    if after.phase is Phase.SWEEPING:
        return all(s is Worker.EXITED for s in states)
    if after.phase.final:
        return all(s in GONE for s in states)
    return any(s not in GONE for s in states) and Worker.LOST not in states


def the_end_is_told_once_and_last(before, event, after, actions):
    told = [i for i, action in enumerate(actions) if isinstance(action, End)]
    if not after.phase.final:
        return not told
    return told == [len(actions) - 1] and actions[-1] == End(after.phase)


def signals_go_to_living_ranks_once(before, event, after, actions):
    for action in actions:
        if isinstance(action, Signal):
            if not action.ranks or (action.kill and not after.killing):
                return False
            for r in action.ranks:
                if after.ranks[r].state not in ALIVE or (before.ranks[r].asked and not action.kill):
                    return False
    return True


def who_is_asked_to_stop_is_signalled(before, event, after, actions):
    signals = [a for a in actions if isinstance(a, Signal)]
    told = {r for a in signals for r in a.ranks}
    killed = {r for a in signals if a.kill for r in a.ranks}
    alive = {r for r, rank in enumerate(after.ranks) if rank.state in ALIVE}
    if after.phase is Phase.STOPPING and after.killing and not before.killing and killed != alive:
        return False
    newly = {r for r, (b, a) in enumerate(_pairs(before, after)) if a.asked and not b.asked}
    return newly <= (killed if after.killing else told)


def who_is_started_while_the_others_are_killed_is_killed_at_once(before, event, after, actions):
    if not before.killing or getattr(event, "kind", None) is not WorkerEvent.SPAWNED:
        return True
    return Signal((event.rank,), kill=True) in actions


def who_has_no_process_is_cancelled(before, event, after, actions):
    if after.phase is not Phase.STOPPING or before.phase is Phase.STOPPING:
        return not any(isinstance(a, Cancel) for a in actions)
    pending = any(r.state is Worker.PENDING for r in after.ranks)
    return pending == (Cancel() in actions)


def who_told_its_outcome_is_left_to_linger(before, event, after, actions):
    if isinstance(event, Deadline) and event.kind is DeadlineKind.LINGER:
        return True
    return not any(
        isinstance(action, Signal) and not action.kill and before.ranks[r].reported
        for action in actions
        for r in (action.ranks if isinstance(action, Signal) else ())
    )


KEPT = (
    the_gone_stay_gone,
    the_ending_is_known_when_gone,
    a_failure_never_moves_to_a_later_time,
    the_cause_only_gives_way_to_an_earlier_failure,
    what_we_ended_is_no_failure,
    a_restart_comes_when_it_is_due_and_only_then,
    a_wish_to_stop_stays,
    the_verdict_says_what_happened,
    a_group_ends_after_its_ranks,
    the_end_is_told_once_and_last,
    signals_go_to_living_ranks_once,
    who_is_asked_to_stop_is_signalled,
    who_is_started_while_the_others_are_killed_is_killed_at_once,
    who_has_no_process_is_cancelled,
    who_told_its_outcome_is_left_to_linger,
)
