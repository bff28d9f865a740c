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

The kernel ends the spare with pytest's process. An agent ends with the spare, also while it makes a
fixture.

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
import signal
import socket
import sys
from collections import defaultdict
from multiprocessing import Pipe
from multiprocessing.reduction import recv_handle, send_handle

from procession.agent.client import Agent, reap_dying
from procession.pytest import inrank, renew
from procession.pytest.processes import forked
from procession.pytest.talk import HUNG_UP
from procession.system.child import Child
from procession.system.prctl import die_with_parent, gather_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from typing import Any

GOING = 10.0  # seconds that a process may take to die of SIGKILL


class Spare:
    """The spare as pytest's process holds it. session: pytest's, which has collected."""

    def __init__(self, session: Any) -> None:
        self._line, theirs = Pipe()
        renew.remember_random()
        parent, pid = os.getpid(), forked()
        if not pid:
            try:  # nothing may fail outside of this: pytest would go on in two processes
                self._line.close()
                if die_with_parent(parent):
                    _wait(theirs, session)
            finally:
                os._exit(1)
        theirs.close()
        self._process = Child(pid)

    def agent(self) -> Agent:
        """Have it fork an agent, for one group after the other. Raises OSError."""
        self._process.signal(signal.SIGCONT)  # somebody may have stopped it
        try:
            self._line.send(None)
            pid, said = self._line.recv()
            if not pid:
                raise OSError(said)
            sock = socket.socket(fileno=recv_handle(self._line))
        except HUNG_UP as e:
            raise OSError(f"the process that they come from: {e or 'has ended'}") from None
        sock.set_inheritable(False)
        agent = Agent(pid, sock, own=False)
        agent.page, agent.lasting = said, True
        return agent

    def close(self) -> None:
        """End it; what it has forked hears of that, and goes by itself."""
        self._process.signal(signal.SIGKILL)
        self._process.reaped(GOING)
        self._process.close()
        self._line.close()


def _wait(line: Connection, session: Any) -> None:
    """Be a spare: fork an agent whenever one is wished for."""
    os.setsid()  # Ctrl-C is for pytest, which says what follows from it
    inrank.prepare(session.config)
    program = inrank.Program(session)
    gc.collect()
    gc.freeze()  # a collection in a rank must not touch, and so copy, what all share
    gather_memory()  # each rank is a fork of a fork of this process
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.register_at_fork(after_in_child=line.close)
    nothing = defaultdict[int, "Any"](tuple), defaultdict[int, "Any"](dict)
    while True:
        line.recv()
        reap_dying()
        try:
            agent = Agent.fork((program, *nothing))
        except OSError as e:
            line.send((0, str(e)))
        else:
            line.send((agent.pid, agent.page))
            send_handle(line, agent.fileno(), os.getppid())
            agent.let_go()
