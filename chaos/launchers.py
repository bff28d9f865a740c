"""Launchers in processes of their own, which trials start, disturb and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos import processes
from chaos.runner import ROOT

COMMAND = str(Path(sys.executable).with_name("procession"))

OWN = "CHAOS_LAUNCH"  # the variable by which the processes of a launcher are known


class Launcher:
    """A launcher. mark: by which all that it has started is known; it is the worker's, too."""

    def __init__(
        self,
        argv: Sequence[str],
        work: Path,
        env: Mapping[str, str] | None = None,
        *,
        ignoring: Sequence[int] = (),
    ) -> None:
        """Start it, with its output in a file. ignoring: signals that it ignores from the start."""
        self.own = uuid.uuid4().hex
        self.output = work / "output"

        def prepare() -> None:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            for number in ignoring:
                signal.signal(number, signal.SIG_IGN)

        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=work,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "CHAOS_WORK": str(work),
                    OWN: self.own,
                    **(env or {}),
                },
                start_new_session=True,
                preexec_fn=prepare,
            )
        self.pid = self.process.pid

    def all(self) -> list[int]:
        """Give the processes that this launcher or its ranks have started, and itself."""
        return processes.marked(self.own, OWN)

    def agent(self, method: str = "forkserver") -> int | None:
        """Give the agent's process, None if there is none. method: to start ranks."""
        for pid in processes.children(self.pid):
            if method == "fork" or "agent/entry.py" in processes.command_line(pid):
                return pid
        return None

    def send(self, number: int) -> bool:
        """Send a signal; tells whether the launcher was there to get it."""
        if self.process.poll() is not None:
            return False
        self.process.send_signal(number)
        return True

    def text(self) -> str:
        """Give what it has written."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def end(self, seconds: float) -> int | None:
        """Wait for its end; gives its returncode, or None if it did not come, and then kills it."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def wait_gone(self, seconds: float) -> tuple[list[int], float]:
        """Wait until nothing of it is left; gives what is, and how long that took."""
        return processes.wait_gone(self.own, seconds, name=OWN)
