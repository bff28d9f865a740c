"""The stem: a fork of pytest's process from before the first test, of which templates are forked.

Theory of operation. When pytest has collected, and no test has run, it forks this process, which
does nothing but wait. It forks a template (`template`) when pytest asks for one: at the first test
with ranks, and again if that was lost, by a shared fixture that crashed, say. So ranks never come
from a process in which a test has run, however many tests without ranks have run in pytest's own
process.

    pytest ── tests without ranks
      └─ stem ── waits
           └─ template ── makes shared fixtures, launches a group for each test
                └─ forkserver ── as of every launch of procession; the parent of the ranks
                     └─ ranks: one test, then they end

All of them end when their line to the process above is closed, however that came to be.

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
import warnings

from procession.pytest import spawned
from procession.pytest.template import Template
from procession.pytest.wire import Line, pair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Stem:
    """The stem as pytest's process holds it. terminal: see `terminal.descriptors`."""

    def __init__(self, session: Any, terminal: tuple[int, ...] = ()) -> None:
        ours, theirs = pair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._owner = os.getpid()
        with warnings.catch_warnings():  # of threads that a fork does not have; see the docs
            warnings.simplefilter("ignore")
            pid = os.fork()
        if not pid:
            ours.close()
            _be(_Waiting(theirs, session, terminal).run)
        theirs.close()
        self._line = ours
        self._pid = pid

    def template(self) -> Line:
        """Give the line to a new template. Raises OSError if the stem is gone."""
        ours, theirs = pair()
        try:
            self._line.send("template", (theirs.fileno(),))
        finally:
            theirs.close()
        return ours

    def process(self, fds: tuple[int, ...]) -> None:
        """Have it start a process, see `spawned`. Raises OSError if the stem is gone."""
        self._line.send("process", fds)

    def close(self) -> None:
        """Let it go, and wait until it has; what it has forked goes by itself."""
        self._line.close()
        if os.getpid() != self._owner:
            return
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass  # somebody else has reaped it


def _be(call: Any) -> None:
    """Be what `call` does, and nothing of what the forked process was."""
    status = 1
    try:
        status = call() or 0
    finally:
        os._exit(status)


class _Waiting:
    """The stem itself: it forks what it is asked for, and reaps it."""

    def __init__(self, line: Line, session: Any, terminal: tuple[int, ...]) -> None:
        self._line = line
        self._session = session
        self._terminal = terminal
        self._status: dict[int, int] = {}  # by pid: where the exit code of a process is told

    def run(self) -> None:
        """Wait for wishes until pytest is gone; then end what tests have started from here."""
        os.setsid()  # Ctrl-C is for pytest, which says what follows from it
        gc.collect()
        gc.freeze()  # a collection in a rank must not touch, and so copy, what all share
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGCHLD, _wake_up)
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._own = (woken, wake)
        while True:
            ready, _, _ = select.select([self._line, woken], [], [])
            if woken in ready:
                os.read(woken, 4096)
                self._reap()
            if self._line in ready:
                try:
                    wish, fds = self._line.receive_with_fds()
                except (EOFError, OSError):
                    break
                self._fork(wish, fds)
        for pid in self._status:
            os.kill(pid, signal.SIGKILL)

    def _fork(self, wish: str, fds: list[int]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if not pid:
            self._leave()
            if wish == "template":
                mine = Line(socket.socket(fileno=fds[0]))
                _be(Template(mine, self._session, self._terminal).serve)
            _be(lambda: spawned.be_process(fds))
        if wish == "process":
            status = self._status[pid] = os.dup(fds[1])
            spawned.told_pid(status, pid)
        for fd in fds:
            os.close(fd)

    def _leave(self) -> None:
        """Give up what is the stem's, in what it has forked."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._line.close()
        for fd in (*self._own, *self._status.values()):
            os.close(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._status:
                spawned.told_exit(self._status.pop(pid), status)


def _wake_up(_number: int, _frame: object) -> None:
    """Do nothing: the signal module has written to the wake-up descriptor."""
