"""The driver: the one loop that owns a run, from its first process to its end.

Theory of operation. Wait, take what happened, do what follows. What happens to ranks comes from
the machines on which they are; the driver writes it down and shows it, decides what starts again,
and says in the end why. Nothing keeps its loop from hearing: what may hang (files, and the code of
users) is done by threads (`journal`, `recovery`).

The loop runs in a thread of its own (`Group`), or in the main thread of the command. Which machines
there are, and how they are reached, is what kinds of drivers differ in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from procession.driver.debugging import Debugged
from procession.driver.journal import Journal
from procession.explain.ends import load_words
from procession.rules.tables import Phase
from procession.system.eventloop import EventLoop
from procession.system.threads import Latch
from procession.values.errors import GroupEnd
from procession.values.events import Event
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.driver.recovery import Done, Recovery
    from procession.output.wiring import Display, RunFiles

UNREACHABLE = "its run cannot be reached from a terminal (see control=True)"
DRAIN_SECONDS = 2.0  # for output that may explain a failure, or whose reader takes nothing
EVENTS_OF_A_LIFE = 10  # of one rank, that are kept
MARGIN = 15.0  # seconds beyond all deadlines of a run, for the launcher's own work


class Driver:
    """Runs one group. `run` returns when it has ended, and `end` then says how.

    spec: all ranks of the run. files: where events are written down, if they are kept. display:
    shows the output of ranks. run_id: what the run is called. life: their state. stopper: who has
    had it stopped, in words, where only the driver knows; else "". started: set when the group has
    left its first phase, or has ended. running_since: when all ranks of this attempt ran, in
    nanoseconds of the monotonic clock, 0 if not yet. Ranks are numbered throughout the group.
    """

    undebugged = UNREACHABLE  # why ranks cannot be debugged, "" if they can
    told_stop: Callable[[int | None], object] | None = None  # None: somebody has left
    distant = False  # whether ranks must be asked how they are, which takes time
    life: Any  # a Lifecycle, or that of a job

    def __init__(
        self, spec: Spec, files: RunFiles, display: Display, run_id: str, on_failure: Any
    ) -> None:
        self.spec = spec
        self.files = files
        self.display = display
        self.run_id = run_id
        self.stopper = ""
        self.end: GroupEnd | None = None
        self.started = Latch()
        self.crashed = False
        self.journal = Journal(files if files.kept else None, EVENTS_OF_A_LIFE * spec.nproc)
        loop = self.loop = EventLoop()
        self.running_since = 0
        self.told_signal: Callable[[int, str, bool], None] | None = None
        self._on_failure = on_failure
        # For so long its reader may take nothing of the output that is still to be shown; None: for
        # ever. The wait for it ends when a stop is asked for.
        self._stall_seconds: float | None = DRAIN_SECONDS
        self._hurry = False
        self._recovery: Recovery | None = None
        self.debugged = Debugged(self._debugged)
        self.journal.on_fault(loop.fail)

    @property
    def recovery(self) -> Recovery:
        """What decides after failures; made, and imported, for the first one."""
        if self._recovery is None:
            from procession.driver.recovery import Recovery

            rules, reads = self.spec.restart, self.files.kept
            around = self._on_failure, self.loop, self.journal
            self._recovery = Recovery(rules, *around, reads=reads)
        return self._recovery

    def _debugged(self, rank: int | None) -> None:
        """Tell that a rank has stopped, or goes on; None: somebody has left who debugged."""
        if rank is not None:
            self.tell_debugged(debugs=bool(self.debugged.stopped))
        if self.told_stop is not None:
            self.told_stop(rank)
        elif rank in self.debugged.stopped and not self.debugged.listeners:
            self.say(self.debugged.where(rank, self.run_id))

    def tell_debugged(self, *, debugs: bool) -> None:
        """Tell the machines whether some rank is stopped by its debugger."""
        raise NotImplementedError

    @property
    def may_recover(self) -> bool:
        """Whether something is to be decided, or to be told to `on_failure`, after a failure."""
        rules = self.spec.restart
        return bool(rules.max or rules.node_losses or self._on_failure is not None)

    @property
    def notes(self) -> list[str]:
        """What the report says about attempts before the last one, and why there is no other."""
        return self._recovery.notes if self._recovery is not None else []

    def decide(self, look: Callable[[], GroupEnd], done: Done) -> None:
        """Have it decided whether the group starts again. look: says how the attempt ended."""
        began, self.running_since = self.running_since, 0
        self.recovery.decide(look, began, None, done)

    # -- running it

    def run(self) -> None:
        """Run the group to its end. Leaves nothing open, whatever happens."""
        try:
            self.begin_run()
            while not self.phase.final:
                self.journal.publish()
                self.loop.turn()
            self.end = self.conclude()
        except BaseException:
            self.crashed = True
            raise
        finally:
            self.close()

    def begin_run(self) -> None:
        """Begin; in the loop's thread, as `conclude` and `close`."""

    def conclude(self) -> GroupEnd:
        """Show what is left to show, and say how the group ended."""
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back, also what is left of the group."""
        self.loop.close()
        self.started.set()
        self.journal.end()
        self.journal.let_threads_go()

    # -- what is wanted and known, from any thread; see both kinds of drivers for the rest

    def request_impatience(self) -> None:
        """Ask that a group that has failed, or fails, is ended at once."""

    def subscribe(self, call: Callable[[Event], object], *, inside: bool = False) -> None:
        """Have `call` called with each event, the past ones first.

        In a thread for handlers; inside: in the loop's thread, for a handler that never waits.
        When the group is over, in this thread.
        """
        add = self.journal.call_inside if inside else self.journal.subscribe
        self.loop.request(lambda: add(call), certain=True)

    def on_signal(self, call: Callable[[int, str, bool], None]) -> None:
        """Have `call` called with signals that come to processes of ours on other machines.

        It gets the number, where it came, and whether it has come again.
        """
        self.told_signal = call

    def say(self, line: str) -> None:
        """Show a line of our own; see `Group.say`."""
        from procession.output.text import shown

        self.display.say(shown(line).encode(errors="backslashreplace") + b"\n")

    def say_unshown(self, end: GroupEnd) -> None:
        """Say what was not shown of an attempt that is followed by another one."""
        if load_words():
            from procession.explain.report import unshown

            for line in unshown(end, end.first, f"after attempt {end.attempt} had failed"):
                self.say(f"procession: {line}")

    def drain_patiently(self) -> None:
        """Show all output at the end, however slowly it is read. To be called before `run`."""
        self._stall_seconds = None

    def _drain(self) -> list[str]:
        """Show what is still to be shown; gives a note if the time or a stop cut it off."""
        display, seconds = self.display, DRAIN_SECONDS if self._hurry else 0.0

        def drained() -> None:
            nonlocal seconds
            seconds, self._hurry = DRAIN_SECONDS, True

        def look(before: int) -> None:
            if display.shown == before:
                self._hurry = True
            else:
                await_reader()

        def await_reader() -> None:
            if self._stall_seconds is not None:
                self.loop.after("drain", self._stall_seconds, partial(look, display.shown))

        display.finish(lambda: self.loop.request(drained))
        await_reader()
        while not self._hurry:
            self.loop.turn()
        self.loop.cancel("drain")
        note = "the console did not accept all output in time; the rest is lost [P407]"
        return [] if display.drain(seconds) else [note]

    # -- what is known, for any thread

    @property
    def phase(self) -> Phase:
        """Where the group is in its life."""
        raise NotImplementedError

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""
        return self.life.attempt

    @property
    def stop_signal(self) -> int:
        """By which signal ranks are, or were, asked to end."""
        return int(self.spec.stop.signal)

    @property
    def hosts(self) -> list[str]:
        """The names of the machines of this attempt, by node rank; [] where there is only this."""
        return []

    def longest(self) -> float:
        """Give the seconds in which a group ends once it is stopped, whatever its ranks do."""
        stop = self.spec.stop
        return stop.notice + stop.grace + stop.reap + MARGIN

    def waited_for(self, done: Latch) -> contextlib.AbstractContextManager[None]:
        """Give what is to hold while a thread waits for the run. done: set when it is over."""
        return contextlib.nullcontext()

    def stacks_of_failure(self) -> list[dict[str, Any]]:
        """Say where ranks were when the group failed, as `stacks` does, where that is known."""
        return []
