"""How a rank talks to the process that hears it while its test runs."""

from __future__ import annotations

import os
import pickle
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from procession.pytest.wire import Line


class Rank:
    """A rank as its fixtures see it.

    number, size: which of how many. timeout: seconds that the test has, 0 for no limit. backend: of
    its process group. store: the file where this meets, the same in all ranks. kept: this process
    runs other tests, too.
    """

    def __init__(self, request: dict[str, Any], line: Line, number: int | None = None) -> None:
        self.number = int(os.environ["RANK"]) if number is None else number
        self.size: int = request["nproc"]
        self.timeout: float = request["timeout"]
        self.backend: str = request["backend"]
        self.store: str = request["store"]
        self.kept: bool = request["method"] == "keep"
        self._line = line
        self._lock = threading.Lock()  # threads of a test may gather, and none may tear a message

    def tell(self, kind: str, value: Any) -> None:
        """Send a message. If nobody hears it, that is noticed elsewhere."""
        with self._lock:
            self._line.send_if_there((kind, value))

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
                answer = self._line.receive()
            except OSError:
                answer = "the launcher of this test is gone"
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def gather(self, value: Any) -> list[Any]:
        """Give the values of all ranks, by rank."""
        __tracebackhide__ = True
        return [pickle.loads(each) for each in self._ask("gather", pickle.dumps(value))]

    def terminal(self) -> list[int]:
        """Ask for the terminal; gives its three descriptors, or nothing if another rank has it."""
        with self._lock:
            try:
                self._line.send(("terminal", None))
                return self._line.receive_with_fds()[1]
            except OSError:
                return []
