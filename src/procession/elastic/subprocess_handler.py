"""`SubprocessHandler`: a rank of a `SubprocessContext`; `proc` looks like a `subprocess.Popen`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from procession.api.watch import RankProcess, Watch
from procession.group.group import Group

__all__ = ["SubprocessHandler"]

_UNKNOWN = 1  # the exit code of a process whose status is not known


class Process(RankProcess):
    """The process of a rank, with the attributes of a `subprocess.Popen` that is not piped.

    args: its command line. It is not a child of this process: `os.waitpid` does not know it.
    """

    def __init__(self, group: Group, watch: Watch, rank: int, args: Sequence[str]) -> None:
        super().__init__(group, watch, rank)
        self.args = tuple(args)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended, and give its `returncode`.

        timeout: seconds; None waits for ever. Raises subprocess.TimeoutExpired.
        """
        code = self.ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def __repr__(self) -> str:
        return f"<Process: returncode: {self.returncode} args: {self.args}>"


class SubprocessHandler:
    """A rank that runs a program. local_rank_id: its number. proc: its process."""

    def __init__(self, local_rank_id: int, proc: Process) -> None:
        self.local_rank_id = local_rank_id
        self.proc = proc

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send the process a signal, by default SIGTERM, and return at once."""
        self.proc.send_signal(death_sig or signal.SIGTERM)


def handlers_of(group: Group, words: Sequence[Sequence[str]]) -> dict[int, SubprocessHandler]:
    """Give a handler for each rank of a group that is being started. words: what each runs."""
    watch = Watch(group, _UNKNOWN)
    return {
        rank: SubprocessHandler(rank, Process(group, watch, rank, args))
        for rank, args in enumerate(words)
    }
