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
from procession.pytest.wire import Line, hang_up, pair
from procession.system.prctl import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def greeting_of(session: Any) -> str:
    """Give what the workers of one stem must have in common: their tests, and their Python."""
    said = [sys.executable, sys.version, *(item.nodeid for item in session.items)]
    return hashlib.sha256("\0".join(said).encode(errors="surrogatepass")).hexdigest()


TAKEN = "taken"  # what the maker says when a template has a line, or none is to have it


class Held:
    """The maker as the stem holds it. leave: gives up, in a fork, what is the stem's.

    pid: 0 while there is none.
    """

    def __init__(self, session: Any, leave: Callable[[], None]) -> None:
        self._session = session
        self._leave = leave
        self._line: Line | None = None
        self.pid = 0
        self._pidfd = -1
        # Lines of workers that wait for a template, the first one first. If it is lost, they are
        # ended here: what a fixture has started may have copies of them.
        self._waiting: list[int] = []

    def pass_on(self, item: int, fd: int) -> None:
        """Have it make a template, for a worker that has the other end of the line `fd`.

        If it is lost meanwhile, the line ends, and the worker asks again.
        """
        if self._line is not None:
            try:
                self._line.send(item, (fd,))
            except OSError:
                self.end()
        if self._line is None:
            self._begin().send(item, (fd,))
        self._waiting.append(os.dup(fd))

    def _be(self, stems: Line, line: Line, stem: int) -> None:
        stems.close()
        self._leave()
        _Maker(line, self._session, stem).serve()

    def fileno(self) -> int:
        """Give the descriptor by which it says something, -1 if there is none."""
        return -1 if self._line is None else self._line.fileno()

    def hear(self) -> None:
        """Take note that a worker has its template, or that the maker has ended."""
        assert self._line is not None
        try:
            self._line.receive()
        except (EOFError, OSError):
            self.end()
        else:
            os.close(self._waiting.pop(0))

    def _begin(self) -> Line:
        ours, theirs = pair()
        stem = os.getpid()
        pid = forked()
        if not pid:
            be(lambda: self._be(ours, theirs, stem))
        theirs.close()
        self._line, self.pid = ours, pid
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
        for fd in self._waiting:
            os.close(fd)

    def end(self) -> None:
        """End it, also while it makes a fixture, and wait until it is gone."""
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
            except (ProcessLookupError, ChildProcessError):
                pass  # it has ended, and the stem has reaped it
        while self._waiting:
            hang_up(self._waiting.pop())
        self.leave()
        self._line, self.pid, self._pidfd = None, 0, -1


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
                pass  # the worker is gone
            else:
                pid = forked()
                if not pid:
                    be(lambda line=theirs: self._be_template(line))
                self._templates.append(pid)
            theirs.close()
            self._line.send(TAKEN)

    def _make(self, line: Line, item: Any) -> None:
        if item.get_closest_marker("ranks").kwargs.get("method") != "spawn":
            sharedfixtures.make_for(item, lambda name: line.send(("making", name)))

    def _be_template(self, line: Line) -> None:
        self._line.close()
        try:
            whose = line.receive()
        except (EOFError, OSError):
            return
        identity.take(self._session.config, whose)
        Template(line, self._session, (), in_common=True).serve()

    def _reap(self) -> None:
        """Reap templates alone: a fixture may wait for processes of its own."""
        self._templates = [pid for pid in self._templates if not _reaped(pid)]


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
