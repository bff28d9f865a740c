"""Messages between pytest's process, the spare, and ranks.

They are pickles that go through connections of `multiprocessing`. Who reads one waits for all of
it, so a process must not be stopped for good while it sends. `FixtureRank` is how a rank talks
while its test runs.
"""

from __future__ import annotations

import os
import pickle
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from typing import Any

# `ConnectionError` is said of an end that has failed, `EOFError` of one that was closed.
HUNG_UP = (OSError, EOFError)


def say(line: Connection, message: Any) -> None:
    """Send a message. If the other end is gone, that is noticed elsewhere."""
    try:
        line.send_bytes(pickle.dumps(message))  # its own pickles would share the memory of tensors
    except OSError:
        pass


class FixtureRank:
    """A rank as its fixtures see it.

    request: what it is asked to run. number, size: which of how many. kept: this process runs other
    tests, too.
    """

    def __init__(
        self, request: dict[str, Any], line: Connection, number: int | None = None
    ) -> None:
        self.number = int(os.environ["RANK"]) if number is None else number
        self.request = request
        self.size: int = request["nproc"]
        self.kept: bool = request["method"] == "keep"
        self._line = line
        self._lock = threading.RLock()  # threads of a test may gather, and none may tear a message

    def tell(self, kind: str, value: Any) -> None:
        """Send a message. If nobody hears it, that is noticed elsewhere."""
        with self._lock:
            say(self._line, (kind, value))

    def tell_done(self, left: dict[str, Any]) -> None:
        """Report that the test is over, and what it has left; wait until that is known.

        When the last rank has ended, so does everything below the ranks: nobody could name it.
        """
        try:
            self._ask("done", left)
        except RuntimeError:
            pass  # nobody is there, and this process ends anyway

    def _ask(self, kind: str, value: Any) -> Any:
        __tracebackhide__ = True
        with self._lock:
            try:
                self._line.send((kind, value))
                answer = self._line.recv()
            except HUNG_UP:
                answer = "the launcher of this test is gone"
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def gather(self, value: Any) -> list[Any]:
        """Give the values of all ranks, by rank."""
        __tracebackhide__ = True
        return [pickle.loads(each) for each in self._ask("gather", pickle.dumps(value))]

    def may_debug(self) -> bool:
        """Ask whether this is the rank whose failure is debugged."""
        try:
            return bool(self._ask("debugs", None))
        except RuntimeError:
            return False  # nobody is there
