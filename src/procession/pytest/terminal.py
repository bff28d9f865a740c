"""The terminal of a session with `--pdb`, which pytest's process lends to the rank that failed.

Theory of operation. A rank is in a session of its own, so the terminal is not its controlling one;
a process that has a descriptor of it can read and write nevertheless. pytest's process hands its
own to the rank that failed first, over its line (`postmortem` is what happens there). Meanwhile
pytest's process writes nothing, and passes Ctrl-C on, which the kernel sends to it.
"""

from __future__ import annotations

import os
import signal
import sys

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
        try:
            os.kill(self._pid, number)
        except OSError:
            pass  # it has ended

    def take_back(self) -> None:
        """Have it again."""
        signal.signal(signal.SIGINT, self._before)
        if self._capture is not None:
            self._capture.resume()


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
