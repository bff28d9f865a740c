"""The world around a `Lifecycle`: which events may really come, and what every step must keep.

A `World` carries out actions as the supervisor and the agent do, but without processes: it
remembers what it was asked for, and `events` lists all that may be told next. It knows a little
less than they do and so allows a little more: a rank may be ready twice, for example.
"""

from seams.rules import (
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
    RankState,
    Signal,
    Spawn,
    Stage,
    StopWanted,
    Sweep,
    Swept,
    Worker,
    WorkerEvent,
    tables,
)

NO_PROCESS_YET = (Worker.PENDING,)
ALIVE = (Worker.STARTING, Worker.RUNNING, Worker.STOPPING, Worker.KILLING)
UNREADY = (Worker.STARTING, Worker.STOPPING, Worker.KILLING)
KILLS = (Stage.KILLED, Stage.SWEEP_KILLED)
NOT_THERE_YET = (Worker.PENDING, Worker.STARTING)


def key_of(deadline):
    """Give what two deadlines have in common of which the later one replaces the other."""
    return deadline.kind if deadline.rank < 0 else (deadline.kind, deadline.rank)


class World:
    """A lifecycle, and what it has asked for and not yet heard of.

    expires: whether patience has an end; without one the caller never arms its deadline.
    hangs: whether ranks may hang, and notice may be given. single: see `Lifecycle`.
    """

    def __init__(self, nproc, patient=False, expires=True, hangs=True, single=False):
        self.life = Lifecycle(nproc, patient, single)
        self.expires, self.hangs = expires, hangs
        self.stop_due = set()
        self.kill_due = set()
        self.cancel_due = self.sweep_due = False
        self.armed = {}

    def begin(self):
        actions = self.life.begin_attempt()
        self._obey(actions)
        return actions

    def tell(self, event):
        """Let an event happen. Returns the actions, which are asked for from now on."""
        if isinstance(event, Deadline):
            self.armed.pop(key_of(event), None)
        elif isinstance(event, Swept):
            self.sweep_due = False
        elif isinstance(event, RankEvent):
            if event.kind is WorkerEvent.STOP_SENT:
                self.stop_due.discard(event.rank)
            elif event.kind is WorkerEvent.KILL_SENT:
                self.kill_due.discard(event.rank)
        actions = self.life.handle(event)
        if isinstance(event, RankEvent) and self.life.ranks[event.rank].state in GONE:
            self.stop_due.discard(event.rank)
            self.kill_due.discard(event.rank)
        self._obey(actions)
        return actions

    def _obey(self, actions):
        for action in actions:
            if isinstance(action, Spawn) and action.rank is not None:
                self.stop_due.discard(action.rank)
                self.kill_due.discard(action.rank)
                for kind in tables.OF_A_RANK:
                    self.armed.pop((kind, action.rank), None)  # stale, and tested apart
            elif isinstance(action, Cancel):
                self.cancel_due = True
            elif isinstance(action, Signal):
                (self.kill_due if action.kill else self.stop_due).update(action.ranks)
            elif isinstance(action, Sweep):
                self.sweep_due = True
            elif isinstance(action, Arm):
                if self.expires or action.deadline.kind is not DeadlineKind.PATIENCE:
                    self.armed[key_of(action.deadline)] = action.deadline
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
        yield StopWanted(hurry=True)
        if self.hangs:
            yield StopWanted(notice=True)
        if self.sweep_due:
            yield Swept(life.attempt)
        for deadline in self.armed.values():
            yield Deadline(deadline.kind, deadline.attempt, moments[-1], deadline.rank)
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
        if self.hangs and state is Worker.RUNNING:
            yield RankEvent(E.HUNG, r, moments[-1], ok=False)
        if state in ALIVE:
            yield RankEvent(E.EXITED, r, after)
            for at in moments if rank.failed_at is None and rank.stop_at is None else (after,):
                yield RankEvent(E.EXITED, r, at, ok=False)
                if self.life.single:
                    yield RankEvent(E.EXITED, r, at, ok=False, again=True)
            if r in self.stop_due:
                yield RankEvent(E.STOP_SENT, r, now if rank.stop_at is None else after)
            if r in self.kill_due:
                yield RankEvent(E.KILL_SENT, r, now)
        if not rank.reported:
            yield RankEvent(E.REPORTED, r, moments[0])
            for at in moments:
                yield RankEvent(E.REPORTED, r, at, ok=False)
            if rank.stop_at is None and r in self.stop_due | self.kill_due:
                # Its word for our signal may overtake the news that it was sent.
                if self.hangs:
                    yield RankEvent(E.REPORTED, r, after)
                yield RankEvent(E.REPORTED, r, after, ok=False)
            if rank.stop_at is not None:
                yield RankEvent(E.REPORTED, r, after)
                yield RankEvent(E.REPORTED, r, after, ok=False)


# -- what every step must keep: (before, event, after, actions) -> whether it does


def ending(life):
    """Say whether ranks, or what they left behind, are being ended."""
    return life.phase is Phase.SWEEPING or (life.phase is Phase.STOPPING and not life.waiting)


def _pairs(before, after):
    return zip(before.ranks, after.ranks, strict=True)


def the_gone_stay_gone(before, event, after, actions):
    return all(
        b.state not in GONE or (a.state is b.state and a.ended is b.ended)
        for b, a in _pairs(before, after)
    )


def the_ending_is_known_when_gone(before, event, after, actions):
    return all((r.state in GONE) == (r.ended is not None) for r in after.ranks)


def revived(before, event):
    """Tell whether a single rank starts again."""
    single = before.single and before.phase in (Phase.STARTING, Phase.RUNNING)
    return single and getattr(event, "again", False) and isinstance(event, RankEvent)


def taken_back(before, event):
    """Give the ranks whose failure turns out to be what our signal led to."""
    if getattr(event, "kind", None) not in (WorkerEvent.STOP_SENT, WorkerEvent.KILL_SENT):
        return set()
    rank = before.ranks[event.rank]
    told = rank.reported and rank.failed_at == rank.reported_at and not rank.start_failed
    first = rank.stop_at is None
    return {event.rank} if told and first and event.at <= rank.reported_at else set()


def a_failure_never_moves_to_a_later_time(before, event, after, actions):
    if revived(before, event):
        return True
    back = taken_back(before, event)
    return all(
        a.failed_at is None
        if r in back
        else b.failed_at is None or (a.failed_at is not None and a.failed_at <= b.failed_at)
        for r, (b, a) in enumerate(_pairs(before, after))
    )


def the_cause_only_gives_way_to_an_earlier_failure(before, event, after, actions):
    if not before.failures or revived(before, event):
        return True
    if back := taken_back(before, event):
        return after.failures == [r for r in before.failures if r not in back]
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


def another_attempt_may_follow_a_failure_of_which_nothing_is_left(before, event, after, actions):
    failed = any(r.failed_at is not None for r in after.ranks)
    whole = not any(r.start_failed or r.state is Worker.LOST for r in after.ranks)
    swept = after.phase.final and isinstance(event, Swept)
    return after.may_be_followed == (swept and failed and whole and not after.stop_wanted)


def a_single_rank_starts_again_if_it_failed_while_the_others_work(before, event, after, actions):
    spawned = [a for a in actions if isinstance(a, Spawn) and a.rank is not None]
    due = (
        revived(before, event)
        and event.kind is WorkerEvent.EXITED
        and not before.ranks[event.rank].start_failed
        and (before.ranks[event.rank].failed_at is not None or _fails(before, event))
    )
    if not due:
        return not spawned
    others = [r for r in range(before.nproc) if r != event.rank]
    same = all(after.ranks[r] == before.ranks[r] for r in others)
    here = Spawn(before.attempt, event.rank) in actions and len(spawned) == 1
    fresh = after.ranks[event.rank] == RankState(attempt=before.ranks[event.rank].attempt + 1)
    return same and here and fresh and after.phase is before.phase


def _fails(before, event):
    rank = before.ranks[event.rank]
    return not event.ok and (rank.stop_at is None or event.at < rank.stop_at)


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
    lost = Worker.LOST in states
    if after.phase is Phase.SWEEPING:
        return all(s in GONE for s in states) and (after.single or not lost)
    if after.phase.final:
        return all(s in GONE for s in states)
    return any(s not in GONE for s in states) and (not lost or after.single)


def the_end_is_told_once_and_last(before, event, after, actions):
    told = [i for i, action in enumerate(actions) if isinstance(action, End)]
    if not after.phase.final:
        return not told
    return told == [len(actions) - 1] and actions[-1] == End(after.phase)


def signals_go_to_living_ranks(before, event, after, actions):
    for action in actions:
        if isinstance(action, Signal):
            alone = after.single and after.phase in (Phase.STARTING, Phase.RUNNING)
            if not action.ranks or (action.kill and not (after.stage in KILLS or alone)):
                return False
            if alone and any(after.ranks[r].failed_at is None for r in action.ranks):
                return False
            if any(after.ranks[r].state not in ALIVE for r in action.ranks):
                return False
    return True


def the_stop_signal_comes_once_unless_in_a_hurry(before, event, after, actions):
    asked = {r for r, rank in enumerate(before.ranks) if rank.asked and rank.state in ALIVE}
    told = [r for a in actions if isinstance(a, Signal) and not a.kill for r in a.ranks]
    if _hurried(before, event):
        return told == sorted(asked)
    return asked.isdisjoint(told) and len(told) == len(set(told))


def _hurried(before, event):
    hurry = isinstance(event, StopWanted) and event.hurry and not event.kill
    return hurry and ending(before) and before.stage not in KILLS


def the_first_signal_counts(before, event, after, actions):
    return revived(before, event) or all(
        b.stop_at is None or a.stop_at == b.stop_at for b, a in _pairs(before, after)
    )


def grace_runs_from_the_first_signal_or_the_last_in_a_hurry(before, event, after, actions):
    armed = [a for a in actions if isinstance(a, Arm) and a.deadline.kind is DeadlineKind.GRACE]
    begins = ending(after) and not ending(before)
    return len(armed) == (begins or _hurried(before, event))


def a_sweep_begins_once_and_comes_again_in_a_hurry_or_to_kill(before, event, after, actions):
    sweeps = [a for a in actions if isinstance(a, Sweep)]
    if after.phase is not Phase.SWEEPING:
        return not sweeps
    killed = after.stage in KILLS and before.stage not in KILLS
    begins = before.phase is not Phase.SWEEPING
    if begins or killed or _hurried(before, event):
        return sweeps == [Sweep(kill=after.stage in KILLS)]
    return not sweeps


def who_is_asked_to_stop_is_signalled(before, event, after, actions):
    signals = [a for a in actions if isinstance(a, Signal)]
    told = {r for a in signals for r in a.ranks}
    killed = {r for a in signals if a.kill for r in a.ranks}
    alive = {r for r, rank in enumerate(after.ranks) if rank.state in ALIVE}
    if after.stage is Stage.KILLED and before.stage not in KILLS and killed != alive:
        return False
    newly = {r for r, (b, a) in enumerate(_pairs(before, after)) if a.asked and not b.asked}
    return newly <= (killed if after.stage in KILLS else told)


def who_is_started_while_the_others_are_killed_is_killed_at_once(before, event, after, actions):
    if before.stage not in KILLS or getattr(event, "kind", None) is not WorkerEvent.SPAWNED:
        return True
    return Signal((event.rank,), kill=True) in actions


def who_has_no_process_is_cancelled(before, event, after, actions):
    if after.phase is not Phase.STOPPING or not ending(after) or ending(before):
        return not any(isinstance(a, Cancel) for a in actions)
    pending = any(r.state is Worker.PENDING for r in after.ranks)
    return pending == (Cancel() in actions)


def who_told_its_outcome_is_left_to_linger(before, event, after, actions):
    if isinstance(event, Deadline) and event.kind is DeadlineKind.LINGER:
        return True
    hung = event.rank if getattr(event, "kind", None) is WorkerEvent.HUNG else None
    return not any(
        isinstance(action, Signal)
        and not action.kill
        and r != hung
        and before.ranks[r].reported
        and not before.ranks[r].asked
        for action in actions
        for r in (action.ranks if isinstance(action, Signal) else ())
    )


# -- patience


def only_a_patient_group_that_failed_waits(before, event, after, actions):
    noticed = after.stop_wanted and after.phase is Phase.STOPPING
    return (
        not after.waiting
        or noticed
        or (
            after.patient
            and after.phase is Phase.STOPPING
            and any(r.failed_at is not None for r in after.ranks)
            and not any(r.start_failed for r in after.ranks)
        )
    )


def a_patient_group_waits_from_its_first_failure(before, event, after, actions):
    armed = any(isinstance(a, Arm) and a.deadline.kind is DeadlineKind.PATIENCE for a in actions)
    fails = (
        after.patient
        and before.phase in (Phase.STARTING, Phase.RUNNING)
        and not (after.single and after.phase in (Phase.STARTING, Phase.RUNNING))
        and not isinstance(event, StopWanted)
        and (bool(after.failures) or Worker.LOST in [r.state for r in after.ranks])
        and not any(r.start_failed for r in after.ranks)
    )
    return armed == fails and (not fails or after.waiting or after.phase is Phase.SWEEPING)


def who_waits_tells_nobody_to_stop(before, event, after, actions):
    if not after.waiting:
        return True
    arms = [a.deadline.kind for a in actions if isinstance(a, Arm)]
    return (
        all((r.stop_at is None and not r.asked) or after.single for r in after.ranks)
        and len(arms) == len(actions)
        and arms in ([], [DeadlineKind.PATIENCE], [DeadlineKind.NOTICE])
    )


def a_wish_to_stop_or_kill_ends_patience(before, event, after, actions):
    if not after.waiting:
        return True
    if after.stage in KILLS or not after.stop_wanted:
        return after.stage not in KILLS
    noticed = before.waiting and before.stop_wanted
    if isinstance(event, StopWanted):
        given = event.notice and before.phase is Phase.RUNNING
        return not event.kill and (given or (noticed and not event.hurry))
    return noticed


def patience_ends_for_a_reason(before, event, after, actions):
    if not before.waiting or after.waiting:
        return True
    return (
        isinstance(event, StopWanted)
        or (
            isinstance(event, Deadline)
            and event.kind in (DeadlineKind.PATIENCE, DeadlineKind.NOTICE)
        )
        or after.phase is Phase.SWEEPING
        or any(r.start_failed for r in after.ranks)
    )


def the_end_of_patience_is_heard_by_all_that_live(before, event, after, actions):
    if not before.waiting or after.waiting or after.phase is not Phase.STOPPING:
        return True
    told = {r for a in actions if isinstance(a, Signal) for r in a.ranks}
    lingering = DeadlineKind.LINGER in [a.deadline.kind for a in actions if isinstance(a, Arm)]
    return all(
        r in told
        or before.ranks[r].asked
        or (rank.reported and lingering and after.stage not in KILLS)
        for r, rank in enumerate(after.ranks)
        if rank.state in ALIVE
    )


KEPT = (
    the_gone_stay_gone,
    the_ending_is_known_when_gone,
    a_failure_never_moves_to_a_later_time,
    the_cause_only_gives_way_to_an_earlier_failure,
    what_we_ended_is_no_failure,
    another_attempt_may_follow_a_failure_of_which_nothing_is_left,
    a_single_rank_starts_again_if_it_failed_while_the_others_work,
    a_wish_to_stop_stays,
    the_verdict_says_what_happened,
    a_group_ends_after_its_ranks,
    the_end_is_told_once_and_last,
    signals_go_to_living_ranks,
    the_stop_signal_comes_once_unless_in_a_hurry,
    the_first_signal_counts,
    grace_runs_from_the_first_signal_or_the_last_in_a_hurry,
    a_sweep_begins_once_and_comes_again_in_a_hurry_or_to_kill,
    who_is_asked_to_stop_is_signalled,
    who_is_started_while_the_others_are_killed_is_killed_at_once,
    who_has_no_process_is_cancelled,
    who_told_its_outcome_is_left_to_linger,
    only_a_patient_group_that_failed_waits,
    a_patient_group_waits_from_its_first_failure,
    who_waits_tells_nobody_to_stop,
    a_wish_to_stop_or_kill_ends_patience,
    patience_ends_for_a_reason,
    the_end_of_patience_is_heard_by_all_that_live,
)
