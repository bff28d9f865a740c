"""`--pdb` in the rank that failed first: pytest's own post-mortem, on the terminal of the session.

All ranks that fail ask for the terminal; one gets it (`grouptalk`). It stays as it was when it
failed; its peers go on or wait, and no time limit counts until the debugger is left.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib import import_module

from procession.pytest import fixtures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


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
            with _writer_of(node.config) as writer:
                writer.line()
                writer.sep(">", f"rank {rank.number} of {rank.size} failed first")
                self._invoke.pytest_exception_interact(node, call, report)
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


@contextmanager
def _writer_of(config: Any) -> Iterator[Any]:
    """Have what pytest writes of its own go to the terminal."""
    writer = import_module("_pytest.config").create_terminal_writer(config, sys.stdout)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    before, reporter._tw = reporter._tw, writer
    try:
        yield writer
    finally:
        reporter._tw = before
