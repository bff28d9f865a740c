"""The stem: a fork of pytest's process, made before the first test, that forks templates.

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

Each of them ends when its connection to the process above is closed, for whatever reason; the
template ends with the stem also while it makes a fixture. The stem also ends when pytest's process
does: what a test left behind may have a copy of the connection.

Workers of pytest-xdist may have one stem in common (`meeting`), which then has a connection to each
of them, and ends with the last one. Shared fixtures are made once for all, in a process between the
stem and the templates (`maker`). A template, and all below it, belongs to one worker.

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
from functools import partial
from importlib import import_module

from procession.pytest import identity, maker, renew, spawned
from procession.pytest.forks import be, forked
from procession.pytest.template import Template
from procession.pytest.wire import Line, pair
from procession.system.prctl import die_with_parent
from procession.warm.wire import peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LETTING_GO = 10.0  # seconds that a stem may take to let a worker go
CLEANING = 5.0  # seconds that templates may take to end when there is no pytest any more
PAUSE = 0.005  # seconds between two looks


class Stem:
    """The stem as pytest's process holds it.

    line: to it. pid: of a child that belongs to this process alone, 0 if workers have it in common.
    identity: what a template of this worker is told then, see `identity_of`.
    """

    def __init__(self, line: Line, pid: int = 0, identity: Any = None) -> None:
        self._line = line
        self._owner = os.getpid()
        self._pid = pid
        self._identity = identity
        self.is_common = not pid

    def template(self, item: int) -> Line:
        """Give the line to a new template. item: the number of the test it is wanted for.

        Raises OSError if the stem is gone.
        """
        ours, theirs = pair()
        try:
            self._line.send(("template", item), (theirs.fileno(),))
        finally:
            theirs.close()
        if self.is_common:
            ours.send(self._identity)
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
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)  # somebody has stopped it
        except OSError:
            pass  # it is gone
        self._line.close()
        if self._pid:
            try:
                os.waitpid(self._pid, 0)
            except ChildProcessError:
                pass  # somebody else has reaped it


def grown(
    session: Any,
    terminal: tuple[int, ...] = (),
    door: socket.socket | None = None,
    lock: int = -1,
    pipes: Sequence[int] = (),
) -> tuple[Line, int]:
    """Fork a stem; gives the line to it, and its pid.

    terminal: see `terminal.descriptors`. door, lock: of one that workers have in common. pipes: of
    the worker that forks it, which are not for one that outlives this worker.
    """
    ours, theirs = pair()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    renew.remember_random()
    pid = forked()
    if not pid:
        be(partial(_begin, ours, theirs, session, terminal, door, lock, pipes))
    theirs.close()
    return ours, pid


def _begin(
    parents: Line,
    line: Line,
    session: Any,
    terminal: tuple[int, ...],
    door: socket.socket | None,
    lock: int,
    pipes: Sequence[int],
) -> None:
    """Be a stem. Nothing here may fail outside of it: pytest would go on in two processes."""
    parents.close()
    identity.let_go_of(pipes)
    _Waiting(line, session, terminal, door, lock).run()


class _Owner:
    """A process of pytest that this stem works for."""

    def __init__(self, line: Line) -> None:
        self.line = line
        try:
            self.pidfd = os.pidfd_open(peer_of(line.sock)[0])
        except OSError:
            self.pidfd = -1  # refused: the end of the line must do

    def close(self) -> None:
        self.line.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)


class _Waiting:
    """The stem itself: it forks what it is asked for, and reaps it."""

    def __init__(
        self,
        line: Line,
        session: Any,
        terminal: tuple[int, ...],
        door: socket.socket | None,
        lock: int,
    ) -> None:
        self._owners = [_Owner(line)]
        self._session = session
        self._terminal = terminal
        self._door = door
        self._lock = lock
        self._maker = maker.Held(session, self._leave) if door is not None else None
        self._pid = 0
        # By pid: where the exit code of a process is told, and for whom it runs.
        self._processes: dict[int, tuple[int, _Owner]] = {}

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
        while self._owners:
            ready = self._ready()
            if woken in ready:
                os.read(woken, 4096)
                self._reap()
            if self._door is not None and self._door.fileno() in ready:
                self._let_in(self._door)
            if self._maker is not None and self._maker.fileno() in ready:
                self._maker.hear()
            for owner in list(self._owners):
                if owner.line.fileno() in ready:
                    self._hear(owner)
                elif owner.pidfd in ready:
                    self._let_go(owner)
        if self._maker is not None:
            self._maker.end()
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

    def _ready(self) -> set[int]:
        poll = select.poll()
        poll.register(self._own[0], select.POLLIN)
        if self._door is not None:
            poll.register(self._door, select.POLLIN)
        if self._maker is not None and self._maker.fileno() >= 0:
            poll.register(self._maker, select.POLLIN)
        for owner in self._owners:
            poll.register(owner.line, select.POLLIN)
            if owner.pidfd >= 0:
                poll.register(owner.pidfd, select.POLLIN)
        return {fd for fd, _ in poll.poll()}

    def _let_in(self, door: socket.socket) -> None:
        """Take a worker that knocks, if it is of this user."""
        try:
            peer, _ = door.accept()
        except OSError:
            return  # it has gone again
        if peer_of(peer)[1] == os.getuid():
            self._owners.append(_Owner(Line(peer)))
        else:
            peer.close()

    def _hear(self, owner: _Owner) -> None:
        try:
            (wish, value), fds = owner.line.receive_with_fds()
        except (EOFError, OSError):
            self._let_go(owner)
            return
        if wish == "greeting":
            self._answer(owner, value)
        elif wish == "template" and self._maker is not None:
            self._maker.pass_on(value, fds[0])
        else:
            self._fork(wish, value, fds, owner)
        for fd in fds:
            os.close(fd)

    def _answer(self, owner: _Owner, greeting: Any) -> None:
        """Say whether a worker is one of this session, with the same tests."""
        try:
            owner.line.send(greeting == maker.greeting_of(self._session))
        except OSError:
            self._let_go(owner)

    def _let_go(self, owner: _Owner) -> None:
        """Forget a worker, and end what its tests have started from here."""
        for pid, (_, of) in self._processes.items():
            if of is owner:
                os.kill(pid, signal.SIGKILL)
        self._owners.remove(owner)
        if self._owners:
            owner.close()  # the last one hears of it when this process, and all of its, has ended

    def _fork(self, wish: str, value: Any, fds: list[int], owner: _Owner) -> None:
        pid = forked()
        if not pid:
            be(partial(self._be, wish, value, fds))
        if wish == "process":
            status = os.dup(fds[spawned.STATUS])
            self._processes[pid] = (status, owner)
            spawned.told_pid(status, pid)

    def _be(self, wish: str, value: Any, fds: list[int]) -> int | None:
        """Be what was asked for, in a fork."""
        self._leave()
        if wish == "process":
            return spawned.be_process(fds, value, self._pid)
        if not die_with_parent(self._pid):
            return 1
        return Template(Line(socket.socket(fileno=fds[0])), self._session, self._terminal).serve()

    def _leave(self) -> None:
        """Give up what is the stem's, in what it has forked."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for owner in self._owners:
            owner.close()
        if self._door is not None:
            self._door.close()
            os.close(self._lock)
        if self._maker is not None:
            self._maker.leave()
        statuses = (status for status, _ in self._processes.values())
        for fd in (*self._own, *statuses):
            os.close(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._maker is not None and pid == self._maker.pid:
                self._maker.end()
            elif pid in self._processes:
                spawned.told_exit(self._processes.pop(pid)[0], status)


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
