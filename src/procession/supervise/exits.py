"""How ranks end: what they report, and their deaths, joined from three sources.

Theory of operation. A death shows in three ways, as a rule in this order:

1. The rank's outcome channel ends. The kernel closes it before any connection to other ranks, so it
   comes before the reports of peers that fail because of this death. It shows when a rank died
   that reported nothing, but not how.
2. The rank's pidfd becomes readable, when it is a zombie. This is the way around a forkserver that
   does not answer or is gone: the exit status is then read from /proc, while there is a zombie.
3. The forkserver, which reaps it, sends exit status, CPU time and peak memory.

2 and 3 lead to `exited`, of which the first call counts. There, and nowhere else, the three become
one exit: its status, when it happened, and by how much that is in doubt.

The doubt is as long as the kernel may take, on a busy machine, from a process's end to what shows.
It is less for ranks that were seen to live after the first failure (`_see_who_lives`): those failed
later, whatever the kernel takes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from procession.explain.records import RankRecord, Silence, Sources
from procession.forkserver.client import ForkServer
from procession.rules.lifecycle import Lifecycle
from procession.rules.messages import RankEvent
from procession.rules.tables import GONE, Phase, Worker, WorkerEvent
from procession.system.cgroups import OomWatch
from procession.system.eventloop import MOMENT, Deaths, EventLoop
from procession.system.processes import caught_alive, status_of_zombie
from procession.values.errors import SIMULTANEOUS
from procession.values.exit import Exit
from procession.values.program import Function
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.prepare.resources import Resources
    from procession.prepare.results import ResultReader

# Decides whether a single rank that is gone starts again: from its number, when it went, and
# whether its exit is a good one. The last argument takes the answer, at once or later.
Decide = Callable[[int, int, bool, Callable[[bool], None]], None]

# From the end of a program until that is seen, on a busy machine: a part of it for each byte of its
# memory, and more where a core file is written.
TEARDOWN_NS = 8_000_000
TEARDOWN_NS_PER_BYTE = 0.03
CORE_NS = 1_000_000_000
# Signals that are no answer to a stop signal: faults of the program, and SIGKILL by the kernel (out
# of memory). SIGABRT is not among them: handlers, and libraries that shut down, call abort.
NO_ANSWER = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL)
FIRST_LOOK_NS = 500_000  # for a look at who lives, before anything else
LOOK_NS = 3_000_000  # for the rest of it: in large groups it is at the first ranks alone
LOOK_EVERY_NS = 100_000_000  # from one such look to the next, at least
SILENT_NS = 1_000_000_000  # from the end of a channel to that of its process, at the most
STATUS_SECONDS = 1.0  # for the forkserver to send the status of a rank that is seen to be dead
REAPED_SECONDS = 5.0  # more, if it has reaped the rank: the status is nowhere else then


class Exits:
    """Watches how the ranks of a group end, and reads what they report.

    records, sources: what was seen of each rank, and where news of it come from. server: the
    forkserver that starts them. handle: takes what happened to one. resources: say whether the
    kernel killed a rank at its own limit of memory, and have the board, where ranks are told that
    all have returned. decide: see `Decide`; None: none starts again.
    """

    def __init__(
        self,
        spec: Spec,
        life: Lifecycle,
        loop: EventLoop,
        server: ForkServer,
        handle: Callable[[RankEvent], None],
        resources: Resources,
    ) -> None:
        self.records: list[RankRecord] = []
        self.sources: list[Sources] = []
        self.server = server
        self.decide: Decide | None = None
        self._spec = spec
        self._life = life
        self._loop = loop
        self._handle = handle
        self._resources = resources
        self._left: set[int] = set()  # ranks that have not returned
        self._alone = spec.node.size(spec.nproc) == spec.nproc
        self._waiting: list[ResultReader] = []  # of ranks that have failed; see `let_exit`
        self._refused_one = False
        self._looked_at = 0  # when it was looked, or is to be, at who lives
        self._heard_at = 0  # the latest time that a report gave
        self._oom = OomWatch()
        self._deaths = Deaths(loop, self._seen_dead)

    def begin(self) -> None:
        """Forget the ranks of the attempt before, and expect new ones."""
        if self.records:
            self._oom = OomWatch()
            self._forget_all()
        numbers = range(self._spec.nproc)
        self.records = [RankRecord(rank, attempt=self._life.attempt) for rank in numbers]
        self.sources = [Sources() for _ in numbers]
        self._left = set(numbers)

    def lives(self, rank: int) -> bool:
        """Whether a rank is not gone yet, or has still to be started."""
        return self._life.ranks[rank].state not in GONE

    def served_by(self, server: ForkServer) -> None:
        """Take note of another forkserver."""
        self.server = server
        self._deaths.moment = MOMENT

    def hurry(self) -> None:
        """Take pidfds for the only source of deaths from now on."""
        self._deaths.moment = 0.0
        for rank, source in enumerate(self.sources):
            if source.dead_by and source.pidfd >= 0:  # nobody will send its status any more
                self._find_out_in(0.0, [rank], source.dead_by, last=True)

    # -- source 1: the outcome channel, with what ranks report

    def watch(self, rank: int, pidfd: int) -> None:
        """Watch a rank that has a process now. pidfd: -1 if none could be had."""
        source = self.sources[rank]
        reader = source.reader
        if reader is not None:
            source.watched_at = time.monotonic_ns()
            self._loop.watch(reader.fd, lambda: self._read_result(rank), first=True)
        if pidfd >= 0:
            source.pidfd = pidfd
            self._deaths.watch(pidfd, rank)

    def _read_result(self, rank: int) -> None:
        source, record = self.sources[rank], self.records[rank]
        reader = source.reader
        if reader is None:
            return
        news = reader.read()
        if reader.refused and not record.refused:
            record.refused = reader.refused
            self._log_refused(rank, reader.refused)
        if reader.ended:
            self._loop.forget(reader.fd)
            # A command does not use its channel: its end means nothing.
            python = self._spec.runs_python(rank)
            if python and reader.report is None and source.silence is None:
                source.silence = self._silence_now(source, record)
                self._one_fails(rank)
        if news:
            first = record.report is None
            record.report = report = reader.report
            if report is not None and first and self.lives(rank):
                self._order_before(report.at)
                if not report.good:
                    self._waiting.append(reader)
                    self._one_fails(rank)
                else:
                    self._returned(rank)
                self._handle(RankEvent(WorkerEvent.REPORTED, rank, report.at, report.good))

    def _returned(self, rank: int) -> None:
        """Tell the ranks when the last one has returned, where there are no more than these."""
        self._left.discard(rank)
        if not self._left and self._alone:
            self._resources.board.tell_returned()

    def let_exit(self) -> None:
        """Answer ranks that have reported their failure, unless others are still to be seen to.

        Those are ranks that are to get the stop signal, before which their stacks are taken. What
        is seen to on other machines is not known here: there the rank waits for its whole time.
        """
        life = self._life
        if not self._waiting or any(k.expects_signal for k in life.ranks):
            return
        if self._alone or life.stop_wanted or life.phase is not Phase.STOPPING:
            for reader in self._waiting:
                reader.answer()
            self._waiting.clear()

    def _silence_now(self, source: Sources, record: RankRecord) -> Silence:
        after, seen = max(self._loop.looked_before, self._heard_at), self._loop.looked
        if after < source.watched_at:  # it may have ended at any time before it was watched
            return Silence(record.started_at, seen, seen, late=True)
        return Silence(after, seen, seen, not self._loop.slept)

    def _order_before(self, at: int) -> None:
        """Put silent deaths before a report: those whose channel was seen to end before it came.

        The peers of a rank that dies without a report see the end of their connections to it, and
        raise, before it is a zombie that can be reaped. But its channel ends even before that,
        and epoll keeps the order.
        """
        self._heard_at = max(self._heard_at, at)
        for source in self.sources:
            silence = source.silence
            if silence is not None and silence.after < at <= silence.until:
                silence.until = at - 1

    def _log_refused(self, rank: int, why: str) -> None:
        """Log that what a rank reports is not believed: once for a group, or a thousand may."""
        if self._refused_one:
            return
        self._refused_one = True
        import logging

        number = self._spec.node.first(self._spec.nproc) + rank
        logging.getLogger("procession").warning("procession: rank %d: %s", number, why)

    def _one_fails(self, rank: int) -> None:
        """Look at who lives: it fails later than this one. At the first ones before anything else.

        What is to be done then, stacks above all, takes milliseconds, in which another may fail.
        """
        if self._life.ranks[rank].stop_at is not None:
            return  # it obeys
        now = time.monotonic_ns()
        if now - self._looked_at > LOOK_EVERY_NS:
            self._looked_at = now
            self._see_who_lives(0, FIRST_LOOK_NS)

    def _see_who_lives(self, first: int, most: int) -> None:
        """Note which ranks, from this one on, have not begun to die; at most for so many ns now.

        What is left is looked at after what is to be done now, or, if it was that, not at all.
        """
        ends = time.monotonic_ns() + most
        for rank, record in enumerate(self.records[first:], first):
            at = time.monotonic_ns()
            if at > ends:
                if not first:
                    rest = partial(self._see_who_lives, rank, LOOK_NS)
                    self._loop.after("who lives", 0.0, rest)
                return
            pid = record.pid if self.sources[rank].pidfd >= 0 and self.lives(rank) else None
            # While it is not reaped, its number is no other process's.
            caught = caught_alive(pid) if pid is not None else -1
            if caught >= 0 and not self.is_reaped(rank):
                self.sources[rank].lived_at, self.sources[rank].caught = at, caught

    # -- source 2: the pidfd

    def _seen_dead(self, ranks: list[int]) -> None:
        """Wait for the forkserver to say how ranks died; find out without it if it does not."""
        alone = self.server.lost or self.server.silent
        at = time.monotonic_ns()
        for rank in ranks:
            self.sources[rank].dead_by = at
        open_ends = [rank for rank in ranks if self.lives(rank)]
        if open_ends:
            self.server.wake()
            self._find_out_in(0.0 if alone else STATUS_SECONDS, open_ends, at, last=alone)

    def _find_out_in(self, seconds: float, ranks: list[int], at: int, *, last: bool) -> None:
        """Find out in so many seconds how these died, if their forkserver has not told by then."""
        dead = [(rank, self.sources[rank]) for rank in ranks]

        def find() -> None:
            for rank, source in dead:
                if self.sources[rank] is source:  # and not of a process that was started since
                    self._find_out(rank, at, last)

        self._loop.after(find, seconds, find)

    def _find_out(self, rank: int, at: int, last: bool) -> None:
        """Find out by ourselves how a rank ended, as long as the kernel keeps its zombie."""
        pid = self.records[rank].pid
        if not self.lives(rank) or pid is None:
            return
        found = status_of_zombie(pid)
        if found is not None and self.is_reaped(rank):
            found = None  # of another process, which has got its number
        if self.server.lost and found is not None and found[0] == signal.SIGKILL:
            found = None  # the parent-death signal, which says nothing of the rank
            last = True
        if found is not None:
            self._note_own_signal(rank, found[0], at)
            self.exited(rank, found[0], found[1], None, at)
        elif last:
            self.exited(rank, None, None, None, at)
        else:
            self._find_out_in(REAPED_SECONDS, [rank], at, last=True)

    def is_reaped(self, rank: int) -> bool:
        """Whether a rank's process is reaped, so that its pid may be another's. It has a pidfd."""
        try:
            signal.pidfd_send_signal(self.sources[rank].pidfd, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it has become another user, or the kernel cannot tell
        return False

    def _note_own_signal(self, rank: int, status: int, at: int) -> None:
        """Take note of a signal that a forkserver was asked for, and of which a rank has died.

        The forkserver was stopped before it could tell.
        """
        number = Exit.from_wait_status(status).signal or 0
        asked = self.records[rank].signals.get(number, at + 1)
        if asked <= at and self._life.ranks[rank].stop_at is None:
            self._handle(RankEvent(event_of(number), rank, at))

    # -- source 3: the forkserver's message; here all three are joined

    def exited(
        self, rank: int, status: int | None, cpu: float | None, peak: int | None, at: int
    ) -> None:
        """Take note of an exit; status, CPU seconds and peak memory are None if not known."""
        self._loop.hear_first()  # what ranks reported before, and deaths before, in their order
        known = self._life.ranks[rank]
        if known.awaited or known.state in GONE:
            return
        record, source = self.records[rank], self.sources[rank]
        at = min(at, source.dead_by or at)  # its forkserver may have reaped it much later
        record.exit = Exit() if status is None else Exit.from_wait_status(status)
        record.cpu_seconds, record.peak_memory, record.exited_at = cpu, peak, at
        killed = record.exit.signal == signal.SIGKILL and known.state is not Worker.KILLING
        if source.reader is not None:
            self._read_result(rank)
        if killed or record.child_killed:
            record.over_limit = self._resources.places.over_limit(record.attempt, rank)
            record.out_of_memory = record.over_limit or self._oom.verdict(peak if killed else None)
        self._forget(rank)  # from here on it is over
        ok = record.exit.code == 0
        if ok and isinstance(self._spec.program, Function):
            ok = record.report is not None and record.report.good
        if not ok:
            self._one_fails(rank)
            reached = known.stop_at is not None  # by a signal of ours; others came too late
            at, doubt = _time_of_death(record, source, at, reached=reached)
            number = record.exit.signal
            alone = number in NO_ANSWER or source.was_crashing(number)
            by_itself = alone and number not in record.signals
            sent = known.stop_at
            if by_itself and sent is not None and at - doubt < sent <= at:
                # It was already dying when the stop signal was sent, of a signal of its own.
                doubt -= at - (sent - 1)
                at = sent - 1
            record.exited_at, record.doubt = at, doubt
        if self.decide is None or not self._life.single:
            self._handle(RankEvent(WorkerEvent.EXITED, rank, at, ok))
            return
        known.awaited = True

        def decided(again: bool) -> None:
            known.awaited = False
            if known.gone:
                return  # its forkserver has told meanwhile that it did not reach its program
            self._handle(RankEvent(WorkerEvent.EXITED, rank, at, ok, again))

        self.decide(rank, at, ok, decided)

    # -- the end

    def _forget(self, rank: int) -> None:
        source = self.sources[rank]
        if source.pidfd >= 0:
            self._deaths.forget(source.pidfd)
            os.close(source.pidfd)
            source.pidfd = -1
        if source.reader is not None and source.reader.fd >= 0:
            self.records[rank].torn = source.reader.torn
            self._loop.forget(source.reader.fd)
            source.reader.close()

    def _forget_all(self) -> None:
        for rank in range(len(self.sources)):
            self._forget(rank)

    def close(self) -> None:
        """Close all descriptors."""
        self._forget_all()
        self._deaths.close()


def event_of(number: int) -> WorkerEvent:
    """Give what happens to a rank when it is sent this signal."""
    return WorkerEvent.KILL_SENT if number == signal.SIGKILL else WorkerEvent.STOP_SENT


def _time_of_death(
    record: RankRecord, source: Sources, at: int, *, reached: bool
) -> tuple[int, int]:
    """Say when a rank died that was seen dead `at`, and by how much it may have been earlier.

    The kernel takes down the memory of a process, and may write it to a core file, before it
    closes descriptors; and we may have been busy with something else when it did.
    """
    silence, ours = source.silence, reached and record.exit.signal in record.signals
    if silence is not None and not ours and at - silence.seen <= SILENT_NS:
        at = min(at, silence.until)
    took = TEARDOWN_NS + int((record.peak_memory or 0) * TEARDOWN_NS_PER_BYTE)
    if record.exit.core:
        took += CORE_NS
    began = max(at - took, record.started_at)
    busy = silence.after if silence is not None and silence.late else at
    # Whoever lived when a failure was known failed later, also if that was within a millisecond.
    certain = source.lived_at and not source.may_have_crashed(record.exit.signal)
    later = source.lived_at + SIMULTANEOUS + 1 if certain else 0
    return at, max(0, at - max(min(began, busy), later))
