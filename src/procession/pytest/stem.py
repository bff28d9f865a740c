"""The stem: a fork of pytest's process, made before the first test, that forks templates.

Theory of operation. When pytest has collected, and no test has run, it forks this process, which
does nothing but wait. It forks a template (`template`) when pytest asks for one: at the first test
with ranks, and again if that was lost, by a shared fixture that crashed, say. So ranks never come
from a process in which a test has run, however many tests without ranks have run in pytest's own
process.

    pytest ── tests without ranks
      └─ stem ── waits
           └─ template ── makes shared fixtures, launches a group for each test
                └─ agent ── as of every launch of procession; the parent of the ranks
                     └─ ranks: one test, then they end

Each of them ends when its connection to the process above is closed, for whatever reason; the
template ends with the stem also while it makes a fixture. The stem also ends when pytest's process
does: what a test left behind may have a copy of the connection.

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
import time
import warnings
from functools import partial
from importlib import import_module

from procession.pytest import renew, spawned
from procession.pytest.template import Template
from procession.pytest.wire import Line, pair
from procession.system.identity import peer_of
from procession.system.prctl import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

LETTING_GO = 10.0  # seconds that a stem may take to let pytest go
CLEANING = 5.0  # seconds that templates may take to end when there is no pytest any more
PAUSE = 0.005  # seconds between two looks


class Stem:
    """The stem as pytest's process holds it.

    session: pytest's, which has collected. terminal: see `terminal.descriptors`.
    """

    def __init__(self, session: Any, terminal: tuple[int, ...]) -> None:
        self._owner = os.getpid()
        self._line, theirs = pair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        renew.remember_random()
        self._pid = forked()
        if not self._pid:
            be(partial(_begin, self._line, theirs, session, terminal))
        theirs.close()

    def template(self) -> Line:
        """Give the line to a new template. Raises OSError if the stem is gone."""
        ours, theirs = pair()
        try:
            self._line.send(("template", None), (theirs.fileno(),))
        finally:
            theirs.close()
        return ours

    def process(self, fds: tuple[int, ...]) -> None:
        """Have it start a process, see `spawned`. Raises OSError if the stem is gone.

        It has the variables that this process has now, as one that is spawned has them.
        """
        self._line.send(("process", dict(os.environ)), fds)

    def close(self) -> None:
        """Let it go, and wait until it has; what it has forked goes by itself."""
        if os.getpid() != self._owner:
            self._line.close()
            return
        try:
            # A process that a test has left may have a copy of this end.
            self._line.sock.shutdown(socket.SHUT_WR)
            self._line.sock.settimeout(LETTING_GO)
            self._line.sock.recv(1)  # nothing comes but the end
        except TimeoutError:
            os.kill(self._pid, signal.SIGKILL)  # somebody has stopped it
        except OSError:
            pass  # it is gone
        self._line.close()
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass  # somebody else has reaped it


def _begin(parents: Line, line: Line, session: Any, terminal: tuple[int, ...]) -> None:
    """Be a stem. Nothing here may fail outside of it: pytest would go on in two processes."""
    parents.close()
    _Waiting(line, session, terminal).run()


class _Waiting:
    """The stem itself: it forks what it is asked for, and reaps it."""

    def __init__(self, line: Line, session: Any, terminal: tuple[int, ...]) -> None:
        self._line = line
        self._session = session
        self._terminal = terminal
        self._pid = 0
        self._processes: dict[int, int] = {}  # by pid: where the exit code of a process is told
        try:
            self._pytest = os.pidfd_open(peer_of(line.sock)[0])
        except OSError:
            self._pytest = -1  # refused: the end of the line must do

    def run(self) -> None:
        """Wait for wishes until pytest is gone; then end what tests have started from here."""
        self._pid = os.getpid()
        os.setsid()  # Ctrl-C is for pytest, which says what follows from it
        _import_torch(self._session)
        gc.collect()
        gc.freeze()  # a collection in a rank must not touch, and so copy, what all share
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGCHLD, _wake_up)
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._own = (woken, wake)
        poll = select.poll()
        for fd in (woken, self._line.fileno(), self._pytest):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if woken in ready:
                os.read(woken, 4096)
                self._reap()
            if self._line.fileno() not in ready:
                if self._pytest in ready:
                    break
                continue
            try:
                (wish, variables), fds = self._line.receive_with_fds()
            except (EOFError, OSError):
                break
            self._fork(wish, variables, fds)
            for fd in fds:
                os.close(fd)
        for pid in self._processes:
            os.kill(pid, signal.SIGKILL)
        self._await_templates()

    def _await_templates(self) -> None:
        """Let templates clean up; one that does not end is killed when this process ends."""
        deadline = time.monotonic() + CLEANING
        while time.monotonic() < deadline:
            try:
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    time.sleep(PAUSE)
            except ChildProcessError:
                return

    def _fork(self, wish: str, variables: Any, fds: list[int]) -> None:
        pid = forked()
        if not pid:
            be(partial(self._be, wish, variables, fds))
        if wish == "process":
            self._processes[pid] = os.dup(fds[spawned.STATUS])
            spawned.told_pid(self._processes[pid], pid)

    def _be(self, wish: str, variables: Any, fds: list[int]) -> int | None:
        """Be what was asked for, in a fork."""
        self._leave()
        if wish == "process":
            return spawned.be_process(fds, variables, self._pid)
        if not die_with_parent(self._pid):
            return 1
        return Template(Line(socket.socket(fileno=fds[0])), self._session, self._terminal).serve()

    def _leave(self) -> None:
        """Give up what is the stem's, in what it has forked."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._line.close()
        if self._pytest >= 0:
            os.close(self._pytest)
        for fd in (*self._own, *self._processes.values()):
            os.close(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._processes:
                spawned.told_exit(self._processes.pop(pid), status)


def forked() -> int:
    """Fork this process; gives 0 in the child, else its pid."""
    with warnings.catch_warnings():  # of threads that a fork does not have; see the docs
        warnings.simplefilter("ignore")
        return os.fork()


def be(call: Any) -> NoReturn:
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


def _wake_up(_number: int, _frame: object) -> None:
    """Do nothing: the signal module has written to the wake-up descriptor."""
