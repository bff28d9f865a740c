"""Launchers in processes of their own, which trials start, disturb and kill."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

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
        console: IO[bytes] | None = None,
    ) -> None:
        """Start it, with its output in a file. console: where it goes instead."""
        self.own = uuid.uuid4().hex
        self.output = work / "output"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=console or output,
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
            )
        self.pid = self.process.pid

    def all(self) -> list[int]:
        """Give the processes that this launcher or its ranks have started, and itself."""
        return processes.marked(self.own, OWN)

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
