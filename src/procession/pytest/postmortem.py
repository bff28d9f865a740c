"""`--pdb` in the rank that failed first: pytest's own post-mortem, on the terminal of the session.

All ranks that fail ask for the terminal; one gets it (`grouptalk`). It stays as it was when it
failed; its peers go on or wait, and no time limit counts until the debugger is left.
"""

from __future__ import annotations

import os
import signal
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
            with _on_terminal(fds), _writer_of(node.config) as writer:
                writer.line()
                writer.sep(">", f"rank {rank.number} of {rank.size} failed first")
                self._invoke.pytest_exception_interact(node, call, report)
        finally:
            rank.tell("debugged", None)


@contextmanager
def _on_terminal(fds: list[int]) -> Iterator[None]:
    """Read from the terminal, write to it, and hear Ctrl-C."""
    numbers = range(3)
    before = sys.stdin, sys.stdout, sys.stderr
    saved = [os.dup(number) for number in numbers]
    for number, fd in zip(numbers, fds, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - closed below
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    ours = sys.stdin, sys.stdout, sys.stderr
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        for stream in ours:
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, fd in zip(numbers, saved, strict=True):
            os.dup2(fd, number)
            os.close(fd)


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
