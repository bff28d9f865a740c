"""Tests in ranks that stop for a debugger: its prompt is on the terminal of pytest.

Theory of operation. A rank that stops talks with its group's driver (`worker.debugging`), which
runs in a thread of pytest's process. Its main thread only waits for the ranks: so it has the
prompt, and hears what else ranks say between two lines of it. With `--pdb`, the rank that fails
first is debugged by pytest's own post-mortem; its peers go on or wait, and no time limit counts
until the debugger is left.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress

from procession.control.prompt import Prompt, edited
from procession.pytest import fixtures
from procession.worker.breakpoints import HALT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pytest.ranks import RanksOfTests


class Line:
    """A way from the main thread to the ranks of a group of this process; see `Connection`.

    pump: does what else there is to do, until something has happened, for so many seconds.
    """

    def __init__(self, ranks: RanksOfTests, pump: Callable[[float | None], None]) -> None:
        self._group, self._driver = ranks.group, ranks.group.driver
        self._wake, self._pump = ranks.note_stop, pump
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._driver.loop.request(lambda: self._driver.debugged.join(self._keep_said))

    def _keep_said(self, rank: int, said: dict[str, Any]) -> None:
        self._said.put({"event": "debug", "rank": rank, "said": said})
        self._wake()

    @property
    def closed(self) -> bool:
        """Whether nothing will come any more."""
        return self._group.state.final

    def send(self, ask: str, **given: Any) -> None:
        """Ask, and do not wait."""
        if ask == "tell":
            self._driver.loop.request(lambda: self._driver.debugged.tell(**given))
        elif ask == "halt":
            self._driver.request_signal(given["rank"], HALT, only_caught=True)
        else:
            self._group.stop(wait=False)

    def events(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """Give what comes within a time."""
        if self._said.empty():
            self._pump(timeout)
        with suppress(queue.Empty):
            yield self._said.get_nowait()

    def close(self) -> None:
        """Hear nothing more."""
        self._driver.loop.request(lambda: self._driver.debugged.leave(self._keep_said))


def prompt(config: Any, ranks: RanksOfTests, pump: Callable[[float | None], None]) -> None:
    """Talk with ranks that have stopped, until none is stopped any more. pump: see `Line`."""
    with closing(Line(ranks, pump)) as line, uncaptured(config):
        talks = Prompt(line, stays=False, ends=False)
        with edited(talks.complete):
            talks.run()


@contextmanager
def uncaptured(config: Any) -> Generator[None]:
    """Have the terminal of pytest while the block runs."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend(in_=True)
    try:
        yield
    finally:
        if capture is not None:
            capture.resume()


class PostMortem:
    """Stands in a rank where pytest's debugger is. invoke: pytest's plugin for `--pdb`."""

    def __init__(self, invoke: Any) -> None:
        self._invoke = invoke

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Debug the failure, if this rank is the first to fail."""
        rank = fixtures.ours
        if rank is None or not rank.may_debug():
            return
        from procession.worker.debugging import talk_of

        writer = node.config.get_terminal_writer()
        nowhere = writer._file
        try:
            talk = writer._file = talk_of(None)
            talk.why = "post-mortem"
            writer.line()
            writer.sep(">", f"rank {rank.number} of {rank.size} failed first")
            self._invoke.pytest_exception_interact(node, call, report)
        finally:
            writer._file = nowhere
            rank.tell("debugged", None)
