"""The sources of one rank's events, as far as they are known."""

from __future__ import annotations

import signal

from procession.values.base import Record, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.prepare.results import ResultReader

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)


class Silence(Record):
    """When a channel ended without a report: between `after` and `until`.

    seen: when this was noticed. late: the loop was busy then, and did not wait for it, or did not
    watch it yet.
    """

    after: int
    until: int
    seen: int
    late: bool = False


class HeldSignal(Value):
    """A signal that was asked for at a time; only_caught: for a process with a handler for it."""

    number: int
    at: int
    only_caught: bool


class Sources(Record):
    """The sources of one rank's events.

    reader: of its outcome channel; watched_at: watched since then. pidfd: -1 for none. silence: set
    when the channel has ended without a report. asked: the forkserver was asked for the rank. held:
    signals for a process that may have begun, of which the forkserver has not told yet. dead_by:
    when the pidfd was seen to show its end, 0 while it was not. lived_at: when it was seen to live
    last, 0 for never. caught: the signals that it had handlers for then, as bits.
    """

    asked: bool = False
    held: tuple[HeldSignal, ...] = ()
    reader: ResultReader | None = None
    watched_at: int = 0
    pidfd: int = -1
    silence: Silence | None = None
    dead_by: int = 0
    lived_at: int = 0
    caught: int = 0

    def may_have_crashed(self, number: int | None) -> bool:
        """Whether a rank that died of this signal may have got it before it was seen to live.

        A crash is written down first, which may take milliseconds (`faulthandler`, core files).
        """
        if number is None or number not in CRASHES:
            return False
        return not self.caught >> (number - 1) & 1

    def was_crashing(self, number: int | None) -> bool:
        """Whether it had: `faulthandler` takes away the handler of the signal that it handles."""
        others = any(self.caught >> (n - 1) & 1 for n in CRASHES)
        return bool(self.lived_at) and others and self.may_have_crashed(number)
