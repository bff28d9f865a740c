"""`--pdb`: pytest's own post-mortem in the rank that failed first, on the terminal of the session.

Theory of operation. A rank is in a session of its own, so the terminal is not its controlling one;
a process that has a descriptor of it can read and write nevertheless. All ranks that fail ask for
the terminal; pytest's process hands its own to the first one, over its line (`grouptalk`).
Meanwhile it writes nothing, and passes Ctrl-C on, which the kernel sends to it. The rank stays as
it was when it failed; its peers go on or wait, and no time limit counts until the debugger is left.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from procession.pytest import fixtures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Lent:
    """The terminal, while a rank has it. pid: of that rank."""

    def __init__(self, config: Any, pid: int) -> None:
        self._pid = pid
        self._capture = config.pluginmanager.getplugin("capturemanager")
        if self._capture is not None:
            self._capture.suspend(in_=True)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._before = signal.signal(signal.SIGINT, self._pass_on)

    def _pass_on(self, number: int, _frame: object) -> None:
        with suppress(OSError):  # it has ended
            os.kill(self._pid, number)

    def take_back(self) -> None:
        """Have it again."""
        signal.signal(signal.SIGINT, self._before)
        if self._capture is not None:
            self._capture.resume()


class PostMortem:
    """Stands in a rank where pytest's debugger is. invoke: pytest's plugin for `--pdb`."""

    def __init__(self, invoke: Any) -> None:
        self._invoke = invoke

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Debug the failure, if this rank gets the terminal."""
        rank = fixtures.ours
        fds = rank.terminal() if rank is not None else []
        if rank is None or not fds:
            return
        capture = node.config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend(in_=True)  # first: it sets the descriptors that are set now
        try:
            _be_on_terminal(fds)
            writer = node.config.get_terminal_writer()
            writer._file, nowhere = sys.stdout, writer._file
            writer.line()
            writer.sep(">", f"rank {rank.number} of {rank.size} failed first")
            self._invoke.pytest_exception_interact(node, call, report)
            writer._file = nowhere
        finally:
            rank.tell("debugged", None)


def _be_on_terminal(fds: list[int]) -> None:
    """Read from the terminal, and write to it, until pytest captures again."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - to the end of the process
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
