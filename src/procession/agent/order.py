"""In which order ranks died: when each did, and by how much that is in doubt.

Theory of operation. A death shows twice. The end of the rank's outcome channel says when: the
kernel closes it before any connection to other ranks, so it comes before the reports of peers that
fail because of this death. `waitpid` says how, some milliseconds later. A command has no channel;
and what it started may hold one open.

The doubt is as long as the kernel may take, on a busy machine, from a process's end to what shows.
It is less for ranks that were seen to live after the first failure (`see_who_lives`): those failed
later, whatever the kernel takes.
"""

from __future__ import annotations

import time

from procession.system import plain as signal
from procession.system.processes import caught_alive
from procession.values.base import Record
from procession.values.errors import SIMULTANEOUS

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    from collections.abc import Sequence

    from procession.agent.channels import Channel
    from procession.system.eventloop import EventLoop

# From the end of a program until that is seen, on a busy machine: a part of it for each byte of its
# memory, and more where a core file is written.
TEARDOWN_NS = 8_000_000
TEARDOWN_NS_PER_BYTE = 0.03
CORE_NS = 1_000_000_000
CORE = 0x80  # in a wait status: a core file was written
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
# Signals that are no answer to a stop signal: faults of the program, and SIGKILL by the kernel (out
# of memory). SIGABRT is not among them: handlers, and libraries that shut down, call abort.
NO_ANSWER = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL)
FIRST_LOOK_NS = 500_000  # for a look at who lives, before anything else
LOOK_NS = 3_000_000  # for the rest of it: in large groups it is at the first ranks alone
LOOK_EVERY_NS = 100_000_000  # from one such look to the next, at least
SILENT_NS = 1_000_000_000  # from the end of a channel to that of its process, at the most


class Silence(Record):
    """When a channel ended without a report: between `after` and `until`.

    seen: when this was noticed. since: from when on it can have ended, as far as the loop was late:
    it was busy, got no CPU when it came, or did not watch it yet.
    """

    after: int
    until: int
    seen: int
    since: int


class Process(Record):
    """The process that a rank has, with times in nanoseconds of the monotonic clock.

    channel: None where it has none, or none any more. signals: those that were sent to it.
    lived_at: when it was seen to live last, 0 for never; caught: the signals that it had handlers
    for then, as bits. reaped: its pid may be another process's.
    """

    rank: int
    pid: int
    began: int
    channel: Channel | None = None
    signals: tuple[int, ...] = ()
    silence: Silence | None = None
    lived_at: int = 0
    caught: int = 0
    reaped: bool = False

    def may_have_crashed(self, number: int) -> bool:
        """Whether one that died of this signal may have got it before it was seen to live.

        A crash is written down first, which may take milliseconds (`faulthandler`, core files).
        """
        return number in CRASHES and not self.caught >> (number - 1) & 1

    def was_crashing(self, number: int) -> bool:
        """Whether it had: `faulthandler` takes away the handler of the signal that it handles."""
        others = any(self.caught >> (n - 1) & 1 for n in CRASHES)
        return bool(self.lived_at) and others and self.may_have_crashed(number)


class Order:
    """The order of deaths in one attempt. processes: by rank; None: it has none (any more)."""

    def __init__(self, loop: EventLoop, processes: Sequence[Process | None]) -> None:
        self._loop = loop
        self._processes = processes
        self._looked_at = 0  # when it was looked at who lives
        self._heard_at = 0  # the latest time that a report gave

    def silent(self, process: Process) -> None:
        """Take note that the channel of a process has ended, without a report."""
        loop = self._loop
        after, seen = max(loop.looked_before, self._heard_at), loop.looked
        since = seen - loop.woke_late() if loop.slept else after
        if after < process.began:  # it may have ended at any time since
            after = since = process.began
        process.silence = Silence(after, seen, seen, max(after, since))

    def reported(self, at: int) -> None:
        """Put silent deaths before a report: those whose channel was seen to end before it came.

        The peers of a rank that dies without a report see the end of their connections to it, and
        raise, before it is a zombie that can be reaped. But its channel ends even before that,
        and epoll keeps the order.
        """
        self._heard_at = max(self._heard_at, at)
        for process in self._processes:
            silence = process.silence if process is not None else None
            if silence is not None and silence.after < at <= silence.until:
                silence.until = at - 1

    def see_who_lives(self) -> None:
        """Look at who lives, now that one fails: it fails later. At the first before all else.

        What is to be done then, stacks above all, takes milliseconds, in which another may fail.
        """
        now = time.monotonic_ns()
        if now - self._looked_at > LOOK_EVERY_NS:
            self._looked_at = now
            self._look_at_ranks(0, FIRST_LOOK_NS)

    def _look_at_ranks(self, first: int, most: int) -> None:
        """Note which ranks, from this one on, have not begun to die; at most for so many ns now.

        What is left is looked at after what is to be done now, or, if it was that, not at all.
        """
        ends = time.monotonic_ns() + most
        for rank, process in enumerate(self._processes[first:], first):
            at = time.monotonic_ns()
            if at > ends:
                if not first:
                    self._loop.after(
                        "who lives", 0.0, lambda rest=rank: self._look_at_ranks(rest, LOOK_NS)
                    )
                return
            if process is not None and not process.reaped:
                caught = caught_alive(process.pid)
                if caught >= 0:
                    process.lived_at, process.caught = at, caught

    def failed(
        self, process: Process, status: int, peak: int, at: int, stop_at: int | None
    ) -> tuple[int, int]:
        """Say when a rank died that was seen dead `at`, and by how much it may have been earlier.

        status: of `waitpid`. peak: its memory in bytes. stop_at: when the first signal of ours
        reached it; others came too late. The kernel takes down the memory of a process, and may
        write it to a core file, before it closes descriptors; and we may have been busy with
        something else when it did.
        """
        number = status & 0x7F  # the signal that ended it, or 0
        seen, silence = at, process.silence
        ours = stop_at is not None and number in process.signals
        if silence is not None and not ours and at - silence.seen <= SILENT_NS:
            at = min(at, silence.until)
        took = TEARDOWN_NS + int(peak * TEARDOWN_NS_PER_BYTE)
        if status & CORE:
            took += CORE_NS
        began = max(at - took, process.began)
        busy = silence.since if silence is not None else at
        # Whoever lived when a failure was known failed later, also if within a millisecond.
        certain = process.lived_at and not process.may_have_crashed(number)
        later = process.lived_at + SIMULTANEOUS + 1 if certain else 0
        at, doubt = min(at, seen), max(0, at - max(min(began, busy), later))
        alone = number in NO_ANSWER or process.was_crashing(number)
        by_itself = alone and number not in process.signals
        if by_itself and stop_at is not None and at - doubt < stop_at <= at:
            # It was already dying when the stop signal was sent, of a signal of its own.
            doubt -= at - (stop_at - 1)
            at = stop_at - 1
        return at, doubt
