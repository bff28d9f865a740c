"""The end of a group: its output is shown, its files are read, and all is put into a `GroupEnd`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from procession.explain.facts import load_words
from procession.output.rundir import FULL
from procession.prepare.resources import Resources
from procession.rules.lifecycle import Lifecycle
from procession.rules.tables import DeadlineKind
from procession.supervise.journal import Journal
from procession.supervise.lastlook import LastLook
from procession.supervise.link import Link
from procession.supervise.outcomes import Outcomes
from procession.system.eventloop import EventLoop
from procession.values.base import Record
from procession.values.errors import GroupEnd
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

DRAIN_SECONDS = 2.0


class Conclusion(Record):
    """Shows what is left of a group's output, and says how it ended. For the loop's thread.

    stall_seconds: the wait for output that is still to be shown ends when its reader has taken
    nothing for so long; None: it does not end. hurry: set when a stop was asked for, which ends
    that wait.
    """

    _spec: Spec
    _life: Lifecycle
    _loop: EventLoop
    _resources: Resources
    _journal: Journal
    _link: Link
    _outcomes: Outcomes
    _last_look: LastLook
    stall_seconds: float | None = DRAIN_SECONDS
    hurry: bool = False
    _drained: bool = False

    def prepare(self) -> None:
        """Load, after what is to be done now, what says how a group failed: while ranks end."""
        if self._life.failures:
            self._loop.after(load_words, 0.0, load_words)

    def draw(self, notes: list[str]) -> GroupEnd:
        """Show what is left to show, and say how the group ended. notes: for the report."""
        self._journal.publish()
        notes = list(notes)
        if not self._drain():
            notes.append("the console did not take all output in time; the rest was cut off")
        nothing = bool(self._link.lost) and self._outcomes.none_started
        if self._link.lost and not nothing:
            notes.append(
                f"the forkserver (pid {self._link.server.pid}) was lost ({self._link.lost}); its "
                "ranks were killed with it, and the launcher ended what they had started"
            )
        if self._life.left_behind:
            notes.append(
                f"something did not go within {self._spec.stop.reap:g} s of SIGKILL, and was left"
            )
        notes += self._journal.settle()
        if self._resources.run_dir.kept:
            self._journal.on_disk("looking at", self._resources.run_dir.check)
        notes += self.losses
        if nothing:
            return self._outcomes.of_start(self._link.lost, notes)
        look = self._last_look
        return self.with_files(
            lambda read: self._outcomes.of_group(
                notes, read=read, stacks=look.stacks, stacks_file=look.file
            )
        )

    def with_files(self, call: Callable[[bool], T]) -> T:
        """Give what `call` gives, which reads files if it gets True; without them if they hang.

        It waits. To be used when no rank is there any more.
        """
        if not self._resources.run_dir.kept:
            return call(True)
        found: list[T] = []
        read = self._journal.on_disk("reading", lambda: found.append(call(True)))
        return found[0] if read else call(False)

    @property
    def losses(self) -> list[str]:
        """What of output and records is lost, and why, one line each."""
        said, fault = self._resources.streams.faults, self._resources.run_dir.fault
        if any(FULL in each for each in said):
            fault = ""  # it is the same disk
        return [each for each in (*said, self._journal.late, fault) if each]

    def _drain(self) -> bool:
        """Show what is still to be shown; False if it was cut off, by the time or by a stop."""
        streams = self._resources.streams
        if self.hurry:
            return streams.drain(DRAIN_SECONDS)
        # The group is over: what happens to its forkserver now is no part of it.
        self._link.leave()
        for kind in DeadlineKind:
            self._loop.cancel(kind)

        def drained() -> None:
            self._drained = True

        def look(before: int) -> None:
            if streams.shown == before:
                self.hurry = True
            else:
                await_reader()

        def await_reader() -> None:
            if self.stall_seconds is not None:
                self._loop.after(look, self.stall_seconds, partial(look, streams.shown))

        streams.finish(lambda: self._loop.request(drained))
        await_reader()
        while not (self._drained or self.hurry):
            self._loop.turn()
        self._loop.cancel(look)
        return streams.drain(DRAIN_SECONDS if self._drained else 0.0)
