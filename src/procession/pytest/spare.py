"""The spare: a fork of pytest's process, made before the first test, that forks agents.

Theory of operation. When pytest has collected, and no test has run, it forks this process, which
does nothing but wait. It forks an agent of itself when pytest asks for one: at the first test with
ranks, and again if that agent was lost, by a shared fixture that crashed, say. pytest's process is
the launcher of that agent, as of any other, though it is not its parent. So ranks never come from a
process in which a test has run, however many tests without ranks have run in pytest's own process.

    pytest ── tests without ranks; launches a group for each test with ranks
      └─ spare ── waits
           └─ agent ── makes shared fixtures; the parent of the ranks
                └─ ranks: one test, then they end

The spare ends when its line to pytest's process is closed, or that process ends: what a test left
behind may have a copy of the line. An agent ends with the spare, also while it makes a fixture.

A fork of the whole process, after it has collected everything, was chosen over a new interpreter
that collects the one module: what plugins, conftest files and options have set up is there,
whatever they are; the items are the very items that pytest has collected, with their parameters;
and it takes milliseconds. Its price: a rank has the modules of all tests of the session, and a
library that does not survive a fork after its import (one that starts threads then) needs
`method="spawn"`.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections import defaultdict
from functools import partial
from importlib import import_module

from procession.agent.client import Agent, reap_dying
from procession.pytest import inrank, renew, spawned
from procession.pytest.processes import forked
from procession.pytest.talk import Line, pair
from procession.system.child import Child
from procession.system.prctl import hear_of_parents_end
from procession.system.processes import pidfd_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

LETTING_GO = 10.0  # seconds that a spare may take to end
LOOK = 50.0  # milliseconds between two looks for processes that have ended, if there is no pidfd


class Spare:
    """The spare as pytest's process holds it. session: pytest's, which has collected."""

    def __init__(self, session: Any) -> None:
        self._line, theirs = pair()
        pytests = pidfd_of(os.getpid())
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        renew.remember_random()
        pid = forked()
        if not pid:
            _be(partial(_begin, self._line, theirs, pytests, session))
        theirs.close()
        if pytests >= 0:
            os.close(pytests)
        self._process = Child(pid)

    def agent(self) -> Agent:
        """Have it fork an agent, for one group after the other. Raises OSError."""
        self._process.signal(signal.SIGCONT)  # somebody may have stopped it
        self._line.send(("agent", None))
        (pid, said), fds = self._line.receive_with_fds()
        if not fds:
            raise OSError(said)
        agent = Agent(pid, socket.socket(fileno=fds[0]), own=False)
        agent.page, agent.lasting = said, True
        return agent

    def process(self, fds: tuple[int, ...]) -> None:
        """Have it start a process, see `spawned`. Raises OSError if it is gone.

        It has the variables that this process has now, as one that is spawned has them.
        """
        self._process.signal(signal.SIGCONT)
        self._line.send(("process", dict(os.environ)), fds)

    def close(self) -> None:
        """Let it go, and wait until it has; what it has forked goes by itself."""
        self._process.signal(signal.SIGCONT)
        try:
            # A process that a test has left may have a copy of this end.
            self._line.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it is gone
        if not self._process.reaped(LETTING_GO):
            self._process.signal(signal.SIGKILL)
            self._process.reaped(LETTING_GO)
        self._process.close()
        self._line.close()


def _begin(parents: Line, line: Line, pytests: int, session: Any) -> None:
    """Be a spare. Nothing here may fail outside of it: pytest would go on in two processes."""
    parents.close()
    _Waiting(line, pytests, session).run()


class _Waiting:
    """The spare itself: it forks what it is asked for.

    pytests: a pidfd of pytest's process, -1 where there is none: then the end of the line must do.
    """

    def __init__(self, line: Line, pytests: int, session: Any) -> None:
        self._line = line
        self._pytests = pytests
        self._session = session
        # Of each process of `spawned`, its pidfd, and where its exit code is told.
        self._processes: dict[int, tuple[int, int]] = {}
        self._poll = select.poll()
        self._watch(line.fileno())
        self._watch(pytests)

    def _watch(self, fd: int) -> None:
        if fd >= 0:
            self._poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Wait for wishes until pytest is gone."""
        self._pid = os.getpid()
        os.setsid()  # Ctrl-C is for pytest, which says what follows from it
        hear_of_parents_end(signal.SIGCONT)  # also if somebody has stopped this process
        _import_torch(self._session)
        inrank.prepare(self._session.config)
        self._program = inrank.Program(self._session)
        gc.collect()
        gc.freeze()  # a collection in a rank must not touch, and so copy, what all share
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.register_at_fork(after_in_child=self._leave)
        while True:
            unseen = any(pidfd < 0 for pidfd, _ in self._processes.values())
            ready = {fd for fd, _ in self._poll.poll(LOOK if unseen else None)}
            for pid in list(self._processes):
                self._reap(pid)
            if self._line.fileno() in ready:
                try:
                    (wish, variables), fds = self._line.receive_with_fds()
                except OSError:
                    return
                if wish == "agent":
                    self._fork_agent()
                else:
                    self._fork_process(variables, fds)
            elif self._pytests in ready:
                return

    def _fork_agent(self) -> None:
        reap_dying()
        nothing = defaultdict[int, "Any"](tuple), defaultdict[int, "Any"](dict)
        try:
            agent = Agent.fork((self._program, *nothing))
        except OSError as e:
            self._line.send_if_there((0, str(e)))
            return
        self._line.send_if_there((agent.pid, agent.page), (agent.fileno(),))
        agent.let_go()

    def _fork_process(self, variables: dict[str, str], fds: list[int]) -> None:
        pid = forked()
        if not pid:
            _be(partial(spawned.be_process, fds, variables, self._pid))
        pidfd, status = self._processes[pid] = pidfd_of(pid), os.dup(fds[spawned.STATUS])
        self._watch(pidfd)
        spawned.told(status, pid)
        for fd in fds:
            os.close(fd)

    def _reap(self, pid: int) -> None:
        ended, how = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return
        pidfd, status = self._processes.pop(pid)
        spawned.told(status, os.waitstatus_to_exitcode(how))
        os.close(status)
        if pidfd >= 0:
            self._poll.unregister(pidfd)
            os.close(pidfd)

    def _leave(self) -> None:
        """Give up what is the spare's, in what it has forked, once."""
        self._line.close()
        for fd in (self._pytests, *(fd for both in self._processes.values() for fd in both)):
            if fd >= 0:
                os.close(fd)
        self._processes.clear()
        self._pytests = -1


def _be(call: Callable[[], int | None]) -> NoReturn:
    """Be what `call` does, and nothing of what the forked process was."""
    status = 1
    try:
        status = call() or 0
    finally:
        os._exit(status)


def _import_torch(session: Any) -> None:
    """Import torch if our fixtures need it: otherwise each rank of each test would.

    It is not imported before the fork: pytest's own process does not need it.
    """
    wanted = {"process_group", "device"}
    if "torch" in sys.modules or not any(
        wanted.intersection(getattr(item, "fixturenames", ()))
        for item in session.items
        if item.get_closest_marker("ranks")
    ):
        return
    try:
        import_module("torch.distributed")
    except Exception:
        pass  # the ranks say it
