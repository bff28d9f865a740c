"""The terminal of a session with `--pdb`, which pytest's process lends to the rank that failed.

Theory of operation. A rank is in a session of its own, so the terminal is not its controlling one;
a process that has a descriptor of it can read and write nevertheless. The descriptors are taken
before the stem is forked, so the template has them, and hands them to the rank that failed first,
over its connection (`postmortem` is what happens there). Meanwhile pytest's process writes nothing,
and passes Ctrl-C on, which the kernel sends to it.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def descriptors(config: Any) -> list[int]:
    """Give what standard input, output and error are where pytest captures nothing.

    None where the session has no `--pdb`.
    """
    if not config.getoption("usepdb"):
        return []
    capture = config.pluginmanager.getplugin("capturemanager")
    capturing = capture is not None and capture._global_capturing
    if not capturing:
        return [os.dup(number) for number in range(3)]
    writing = capturing.is_started()
    capture.suspend_global_capture(in_=True)
    try:
        return [os.dup(number) for number in range(3)]
    finally:
        capture.resume_global_capture()
        if not writing:
            capture.suspend_global_capture()


class Lent:
    """The terminal, while a rank has it. pid: of that rank."""

    def __init__(self, fds: list[int], pid: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._input = fds[0]
        self._modes = _modes_of(self._input)
        self._before = signal.signal(signal.SIGINT, _passing_on(pid))

    def take_back(self) -> None:
        """Have it again, in the state that it was in."""
        signal.signal(signal.SIGINT, self._before)
        if self._modes is None:
            return
        import termios

        try:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._modes)
        except (OSError, termios.error):
            pass  # it is gone


def _modes_of(fd: int) -> list[Any] | None:
    import termios

    try:
        return termios.tcgetattr(fd)
    except (OSError, termios.error):
        return None  # it is no terminal


def _passing_on(pid: int) -> Callable[[int, object], None]:
    def pass_on(number: int, _frame: object) -> None:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # it has ended

    return pass_on


class NotForRanks:
    """Stands where pytest's debugger is: a test that failed in its ranks was debugged there.

    invoke: pytest's plugin for `--pdb`. failed: the exception that stands for a failure in ranks.
    """

    def __init__(self, invoke: Any, failed: type[BaseException]) -> None:
        self._invoke = invoke
        self._failed = failed

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Debug any other failure."""
        if not isinstance(call.excinfo.value, self._failed):
            self._invoke.pytest_exception_interact(node, call, report)

    def pytest_internalerror(self, excinfo: Any) -> None:
        """Debug it."""
        self._invoke.pytest_internalerror(excinfo)
