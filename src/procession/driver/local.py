"""The driver of a group on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from procession.agent.client import Agent
from procession.driver.driver import DRAIN_SECONDS, Driver
from procession.explain.ends import (
    announced_by,
    facts_of_failure,
    facts_of_start,
    facts_of_stop,
    lines_of,
)
from procession.machine.machine import Machine
from procession.prepare.jobs import RankJobs
from procession.rules import messages
from procession.rules.messages import StopWanted
from procession.rules.tables import DeadlineKind, Phase, Worker
from procession.system.relay import relay
from procession.values.errors import Exit, GroupEnd, ProcessionError
from procession.values.events import NO_FACTS
from procession.values.policy import StopRequest
from procession.values.program import Function, Program
from procession.values.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from procession.prepare.results import Body
    from procession.rules.lifecycle import Lifecycle
    from procession.rules.restarting import Decision

    T = TypeVar("T")


class LocalDriver(Driver):
    """Runs a group on this machine. machine: its ranks."""

    life: Lifecycle

    def __init__(self, spec: Spec, jobs: RankJobs, server: Agent) -> None:
        resources = jobs.resources
        around = resources.run_dir, resources.streams, resources.run_id, spec.on_failure
        super().__init__(spec, *around)
        journal = self.journal
        events = journal.note, journal.publish, journal.disk, journal.handlers
        machine = self.machine = Machine(spec, jobs, server, self.loop, self, *events)
        self.life, self._noted = machine.life, machine.life.phase
        self._between: Phase | None = None  # what follows the end of an attempt, if not the end
        self._restarting = ""  # in words
        self._notes: list[str] = []  # for the report

    # -- running it

    def begin_run(self) -> None:
        """Begin with the first attempt."""
        self.machine.begin_attempt()

    def close(self) -> None:
        """Give everything back; whatever is left of the group is killed with its agent."""
        self.machine.close()
        super().close()

    # -- what is wanted

    def request_stop(self, request: StopRequest) -> None:
        """Ask for the end of the group."""

        def take() -> None:
            self._hurry = True
            if self._between is not None:
                self._stop_between()
            else:
                self.machine.stop(request)

        self.loop.request(take)

    def request_signal(self, rank: int | None, number: int, only_caught: bool = False) -> None:
        """Ask for a signal to one rank's process, None for all. only_caught: if it handles it."""
        at = time.monotonic_ns()
        self.loop.request(lambda: self.machine.signal(rank, number, only_caught, at))

    def request_suspension(self) -> None:
        """Ask that ranks and this whole process stop until SIGCONT."""
        self.loop.request(self.machine.suspend)

    def request_impatience(self) -> None:
        """Ask that a group that has failed, or fails, is ended at once."""
        self.loop.request(self.machine.end_patience)

    # -- what is known

    @property
    def phase(self) -> Phase:
        """Where the group is in its life."""
        return Phase.FAILED if self.crashed else self._between or self.life.phase

    @property
    def stop_signal(self) -> int:
        """By which signal ranks are, or were, asked to end."""
        return self.machine.stop_signal

    @property
    def start_failed(self) -> bool:
        """Whether the group does not work because a rank could not be started."""
        failed = any(rank.start_failed for rank in self.life.ranks)
        return failed and self.phase is not Phase.RUNNING

    def pids(self) -> dict[int, int]:
        """Give the process of each rank of this attempt that has or had one."""
        return {r.rank: r.pid for r in list(self.machine.records) if r.pid is not None}

    def exit_of(self, rank: int) -> Exit | None:
        """Give the exit status of a rank, None while it has not exited."""
        states = self.life.ranks
        if not states or states[rank].state is not Worker.EXITED:
            return None
        record = self.machine.records[rank]
        announced = announced_by(states[rank], record)
        return record.exit if announced is None else Exit(announced)

    def look(self) -> dict[str, Any]:
        """Describe this attempt."""
        from procession.explain.report import what_happened
        from procession.machine.looking import kill_at, ranks_of

        first = self.spec.node.first(self.spec.nproc)
        end = self.machine.outcomes.first_failure()
        cause = None if end is None else f"rank {first + end.rank} {what_happened(end)}"
        kill = kill_at(self.machine)
        return {"cause": cause, "kill_at": kill, "ranks": ranks_of(self.machine)}

    def stacks(self, timeout: float, *, native: bool) -> list[dict[str, Any]]:
        """Say where ranks are."""
        from procession.machine.looking import stacks_of

        return stacks_of(self.machine, self.loop, timeout, native=native)

    def stacks_of_failure(self) -> list[dict[str, Any]]:
        """Say where ranks were when the group failed, as `stacks` does."""
        return [each.as_dict() for each in self.machine.last_look.stacks]

    def error_of(self, rank: int) -> dict[str, Any] | None:
        """Give the error report of a rank, as `exception_of` reads it, None if it sent none."""
        return self.machine.records[rank].description or None

    def returned(self) -> Iterator[tuple[int, Program, Body]]:
        """Give rank, program and pickled value of each function that returned."""
        for record in self.machine.records:
            if record.report is None:
                if record.refused and isinstance(self.spec.program, Function):
                    said = f"the value of rank {record.rank} is lost: {record.refused}"
                    raise ProcessionError(said)
                continue
            if record.report.holds_value:
                yield record.rank, self.spec.program_of(record.rank), record.report.body
            if record.report.good:
                record.report = None  # the value has been read, and may be large

    # -- what happens on the machine, see `machine.Listener`

    def begins(self) -> None:
        """Take note that an attempt begins."""
        self._note_phase()

    def happened(self, event: messages.Event) -> None:
        """Take an event that was passed to the rules."""
        if isinstance(event, StopWanted) and self._between is not None:
            self._stop_between()
        if self._between is None and self.life.phase is not self._noted:
            single, follows = self.life.single, self.life.may_be_followed
            if self.may_recover and follows and not single:
                self._between = Phase.SWEEPING
                self.machine.show_together()
                self.display.drain(DRAIN_SECONDS)
                self.machine.take_unshown()
                self.decide(self.machine.outcomes.of_group, self._follow)
            else:
                self._note_phase()

    def asked(self, rank: int, attempt: int) -> None:
        """Decide whether a single rank starts again."""
        self.life.ranks[rank].awaited = True

        def answer(end: GroupEnd, decided: Decision) -> None:
            if self.life.phase in (Phase.STARTING, Phase.RUNNING) and not self.life.stop_wanted:
                said = self.recovery.note_decision(decided, end, rank)
                self.machine.answer(rank, attempt, decided.again, decided.delay, said)

        self.recovery.decide(lambda: self.machine.outcomes.of_single(rank), 0, rank, answer)

    @property
    def is_last(self) -> bool:
        """Whether no other attempt follows, whatever happens."""
        return not self.may_recover or self.recovery.none_left

    def debugs(self, rank: int, fd: int) -> None:
        """Take a socket over which a rank talks with who debugs it."""
        import socket

        number, sock = self.spec.node.first(self.spec.nproc) + rank, socket.socket(fileno=fd)
        relay(self.loop, sock, lambda data: self.debugged.take_data(number, data))
        self.debugged.begin_talk(number, sock.sendall, self.undebugged)

    def tell_debugged(self, *, debugs: bool) -> None:
        """Tell whether some rank is stopped by its debugger."""
        self.machine.debugs(debugs=debugs)

    def remarked(self, said: str) -> None:
        """Take a remark about the imports, for the log and the report."""
        self._notes.append(said)
        import logging

        log = logging.getLogger("procession")
        self.journal.handlers.do_later("logging", lambda: log.warning("procession: %s", said))

    def suspended(self) -> None:
        """Stop this process: the ranks have been stopped."""
        self.loop.hold()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.loop.release()  # it was continued

    def _note_phase(self) -> None:
        phase = self._noted = self.phase
        detail, facts = "", NO_FACTS
        if phase is Phase.STARTING:
            facts = facts_of_start(self.spec, self.run_id)
        elif phase is Phase.BACKOFF:
            detail = self._restarting
        elif phase is Phase.FAILED:
            first = self.machine.outcomes.first_failure
            end = self._with_files(lambda read: first(read=read))
            facts = facts_of_failure(end) if end is not None else NO_FACTS
        elif phase is Phase.STOPPED:
            facts = facts_of_stop(lines_of(self.machine.last_look.stacks))
        self.journal.note(phase.name.lower(), None, self.attempt, detail=detail, facts=facts)
        if phase is Phase.RUNNING:
            self.running_since = time.monotonic_ns()
        if phase is not Phase.STARTING:
            self.started.set()

    # -- from one attempt to the next

    def _follow(self, end: GroupEnd, decided: Decision) -> None:
        """Begin with the next attempt, in a while, or end."""
        if self._between is not Phase.SWEEPING:
            return  # a stop was wanted meanwhile
        self._restarting = self.recovery.note_decision(decided, end, None)
        if not decided.again:
            self._goes_no_further()
            return
        self.say_unshown(end)
        self._between = Phase.BACKOFF
        self._note_phase()
        self.loop.after(Phase.BACKOFF, decided.delay, self._begin_again)

    def _begin_again(self) -> None:
        self._between = None
        self.machine.begin_attempt(self.attempt + 1)

    def _stop_between(self) -> None:
        """End here, though another attempt might follow: a stop is wanted."""
        self.life.stop_wanted = True
        self._goes_no_further()

    def _goes_no_further(self) -> None:
        """Let the attempt that has ended be the last one."""
        self._between = None
        self.loop.cancel(Phase.BACKOFF)
        self._note_phase()

    # -- the end

    def conclude(self) -> GroupEnd:
        """Show what is left to show, and say how the group ended."""
        self.journal.publish()
        # The group is over: what happens to its agent now is no part of it.
        self.machine.link.leave()
        for kind in DeadlineKind:
            self.loop.cancel(kind)
        self.machine.show_together()
        notes = [*self.notes, *self._notes, *self._drain()]
        self.machine.take_unshown()
        notes += self.machine.notes
        notes += self.journal.wait_until_written()
        if self.files.kept:
            self.journal.on_disk("looking at", self.files.check)
        notes += self.losses
        return self._with_files(lambda read: self.machine.end(notes, read=read))

    def _with_files(self, call: Callable[[bool], T]) -> T:
        """Give what `call` gives, which reads files if it gets True; without them if they hang.

        It waits. To be used when no rank is there any more.
        """
        if not self.files.kept:
            return call(True)
        found: list[T] = []
        read = self.journal.on_disk("reading", lambda: found.append(call(True)))
        return found[0] if read else call(False)

    @property
    def losses(self) -> list[str]:
        """What of output and records is lost, and why, one line each."""
        return [*self.machine.losses, *([self.journal.late] if self.journal.late else [])]
