"""What makes shared fixtures for all workers of pytest-xdist: their templates are its forks.

Theory of operation. It is a fork of the stem that workers have in common (`meeting`). When a worker
wants a template for a test, this process makes the shared fixtures that the test needs, where they
are not made yet, and forks the template. So all templates share the memory of what was made before
them. One that lacks a fixture, for a test that comes later, says so, and its worker asks for
another one.

A fixture may crash, so it is not made in the stem. When this process is lost, the stem forks the
next one, which begins with no fixtures; templates that are there go on with what they have.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys

from procession.pytest import identity, sharedfixtures
from procession.pytest.forks import be, forked
from procession.pytest.template import Template
from procession.pytest.wire import Line, pair
from procession.system.prctl import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def greeting_of(session: Any) -> str:
    """Give what the workers of one stem must have in common: their tests, and their Python."""
    said = [sys.executable, sys.version, *(item.nodeid for item in session.items)]
    return hashlib.sha256("\0".join(said).encode(errors="surrogatepass")).hexdigest()


class Held:
    """The maker as the stem holds it. leave: gives up, in a fork, what is the stem's."""

    def __init__(self, session: Any, leave: Callable[[], None]) -> None:
        self._session = session
        self._leave = leave
        self._line: Line | None = None
        self._pidfd = -1

    def pass_on(self, item: int, fd: int) -> None:
        """Have it make a template, for a worker that has the other end of the line `fd`.

        If it is lost meanwhile, the line ends, and the worker asks again.
        """
        if self._line is not None:
            try:
                self._line.send(item, (fd,))
                return
            except OSError:
                self._end()
        self._begin().send(item, (fd,))

    def _begin(self) -> Line:
        ours, theirs = pair()
        stem = os.getpid()
        pid = forked()
        if not pid:
            ours.close()
            self._leave()
            be(_Maker(theirs, self._session, stem).serve)
        theirs.close()
        self._line = ours
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            self._pidfd = -1  # refused: it ends with the stem
        return ours

    def leave(self) -> None:
        """Give it up, in a fork of the stem."""
        if self._line is not None:
            self._line.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def _end(self) -> None:
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            except (ProcessLookupError, ChildProcessError):
                pass  # it has ended, and the stem has reaped it
        self.leave()
        self._line = None
        self._pidfd = -1

    def end(self) -> None:
        """End it, also while it makes a fixture, and wait until it is gone."""
        self._end()


class _Maker:
    """The maker itself. stem: the pid of its parent, without which it does not live."""

    def __init__(self, line: Line, session: Any, stem: int) -> None:
        self._line = line
        self._session = session
        self._stem = stem
        self._templates: list[int] = []

    def serve(self) -> None:
        if not die_with_parent(self._stem):
            return
        while True:
            try:
                item, fds = self._line.receive_with_fds()
            except (EOFError, OSError):
                return
            self._reap()
            theirs = Line(socket.socket(fileno=fds[0]))
            try:
                self._make(theirs, self._session.items[item])
            except OSError:
                theirs.close()  # the worker is gone
                continue
            pid = forked()
            if not pid:
                self._line.close()
                be(lambda line=theirs: _template(line, self._session))
            self._templates.append(pid)
            theirs.close()

    def _make(self, line: Line, item: Any) -> None:
        if item.get_closest_marker("ranks").kwargs.get("method") != "spawn":
            sharedfixtures.make_for(item, lambda name: line.send(("making", name)))

    def _reap(self) -> None:
        """Reap templates alone: a fixture may wait for processes of its own."""
        self._templates = [pid for pid in self._templates if not _reaped(pid)]


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _template(line: Line, session: Any) -> None:
    try:
        whose = line.receive()
    except (EOFError, OSError):
        return
    identity.take(session.config, whose)
    Template(line, session, (), in_common=True).serve()
