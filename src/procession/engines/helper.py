"""A program that an engine starts and listens to, line by line, while it runs: srun, or ssh."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from procession.engines.contract import EngineError

LONGEST = 64 << 10  # bytes of a line; what is longer is taken for several
KEPT = 12  # last lines, as the reason of its end


class Helper:
    """Such a process, in a session of its own, so that Ctrl-C reaches the driver alone.

    env: its variables; None: those of this process. first: what it is given on its standard input,
    which stays open; None: it has none. code: its return code as in `subprocess`, None while it
    runs. last: its last lines, as far as they say why it ends. heard: bytes that it has written.
    started: slots whose node process has begun. Raises EngineError.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        first: bytes | None = None,
    ) -> None:
        self.code: int | None = None
        self.last: deque[str] = deque(maxlen=KEPT)
        self.heard = 0
        self.started: set[int] = set()
        try:
            self._process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL if first is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as e:
            raise EngineError(f"{argv[0]} cannot be started: {e.strerror or e}") from None
        self.pid = self._process.pid
        self._reader: threading.Thread | None = None
        self.say(first or b"")

    @property
    def running(self) -> bool:
        """Whether it runs, or its last lines are still to be read."""
        return self.code is None

    def watch(self, hear: Callable[[str], None], ended: Callable[[], None]) -> None:
        """Call `hear` for each line from now on, and `ended` at the end, in a thread."""

        def read() -> None:
            assert self._process.stdout is not None
            with self._process.stdout as lines:
                while line := lines.readline(LONGEST):
                    self.heard += len(line)
                    hear(line.decode(errors="replace").rstrip("\r\n"))
            self.code = self._process.wait()
            ended()

        self._reader = threading.Thread(target=read, name="procession-helper", daemon=True)
        self._reader.start()

    def say(self, words: bytes) -> None:
        """Write to its standard input; lost if it has ended."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(words)
                self._process.stdin.flush()

    def hang_up(self) -> None:
        """Close its standard input: the last that is said to it."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # what was not written is lost
                self._process.stdin.close()

    def kill(self) -> None:
        """Send it SIGKILL, if it runs."""
        if self.running:
            self._process.kill()

    def join(self, seconds: float | None) -> bool:
        """Wait until it has ended and `ended` was called; False if that takes longer."""
        if self._reader is not None:
            self._reader.join(seconds)
            return not self._reader.is_alive()
        return True


def end_all(helpers: Sequence[Helper], within: float) -> None:
    """Kill those that have not ended by themselves within so many seconds."""
    ends = time.monotonic() + within
    for helper in helpers:
        if not helper.join(max(0.0, ends - time.monotonic())):
            helper.kill()
