"""The ranks of a test, or of several tests, as pytest's process holds them."""

from __future__ import annotations

import os
import select
import shutil
from contextlib import ExitStack, suppress

from procession.group.making import begin_group
from procession.pytest import meeting
from procession.pytest.talk import say
from procession.system.processes import is_dying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from multiprocessing.connection import Connection
    from typing import Any

    from procession.agent.client import Agent
    from procession.values.spec import Spec


class RanksOfTests:
    """A group, and the lines to its ranks, which wait to be told what they are to run.

    door: the name of the socket where they come. files: the directory of what they write, which is
    made. server: the agent that they come from; None for fresh interpreters. key: of the tests that
    they may run. lines: to the ranks that are there, by number. pids: of those that have come.

    Raises SpecError, StartFailed and OSError.
    """

    def __init__(
        self, spec: Spec, door: str, files: str, server: Agent | None, key: Hashable
    ) -> None:
        self.files = files
        self.key = key
        self.lines: dict[int, Connection] = {}
        self.pids: dict[int, int] = {}
        self._request: Any = None
        with ExitStack() as undo:
            os.mkdir(files, 0o700)
            undo.callback(shutil.rmtree, files, ignore_errors=True)
            self.door = undo.enter_context(meeting.door(door, spec.nproc))
            self.group = begin_group(spec, None, False, server)
            self._undo = undo.pop_all()
        self.over, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # readable when the group is
        # Readable when a rank has stopped for a debugger, or goes on.
        self.stops, self._stop = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.group.driver.told_stop = self.note_stop

        def wake_up() -> None:
            os.write(wake, b"!")  # a process that was forked since has this end, too
            os.close(wake)

        self.group.when_over(wake_up)

    def note_stop(self, _rank: int | None = None) -> None:
        """Make `stops` readable; from any thread."""
        with suppress(BlockingIOError):  # it is
            os.write(self._stop, b"!")

    @property
    def link(self) -> Any:
        """The link to the agent."""
        driver: Any = self.group.driver
        return driver.machine.link

    def let_in(self) -> list[int]:
        """Take the lines of those who come; gives their numbers."""
        found: list[int] = []
        while came := meeting.let_in(self.door):
            rank, pid, line = came
            self.lines[rank], self.pids[rank] = line, pid
            if self._request is not None:
                say(line, self._request)
            found.append(rank)
        return found

    def run(self, request: Any) -> None:
        """Have them run a test: those that are there, and the others when they come."""
        self._request = request
        for line in self.lines.values():
            say(line, request)

    def are_well(self) -> bool:
        """Whether all of them live, and none is about to be ended."""
        dead = any(is_dying(pid) for pid in self.group.pids().values())
        return not dead and self.group.state.name == "RUNNING" and not self.are_over()

    def are_over(self, patience: float = 0.0) -> bool:
        """Wait for the end of the group, `patience` seconds at most; says whether it came."""
        return bool(select.select([self.over], [], [], patience)[0])

    def close(self, patience: float = 0.0) -> None:
        """End the group. patience: seconds that ranks have to go by themselves."""
        for line in self.lines.values():
            if patience:
                say(line, None)  # others may have a copy of our end of the line
            line.close()
        self.lines.clear()
        if patience:
            self.are_over(patience)
        with self.group:
            pass
        self._undo.close()
        for fd in (self.over, self.stops, self._stop):
            os.close(fd)
