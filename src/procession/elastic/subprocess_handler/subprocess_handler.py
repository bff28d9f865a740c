"""`SubprocessHandler`: a running program; its `proc` looks like a `subprocess.Popen`."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from procession.elastic.logs import LogsDest
from procession.elastic.plan import as_text, command_spec, environment, output_to
from procession.events import Event
from procession.group import Group
from procession.launch import begin

__all__ = ["SubprocessHandler"]

_get_default_signal = partial(signal.Signals, signal.SIGTERM)  # by this name users know it
_NOBODY_KNOWS = 1  # the exit code of a process whose status nobody could learn


class Process:
    """The process of a rank, with the attributes of a `subprocess.Popen` that is not piped.

    args: its command line. It is not a child of this process: `os.waitpid` does not know it.
    """

    def __init__(self, group: Group, rank: int, args: Sequence[str]) -> None:
        self.args = tuple(args)
        self._group = group
        self._rank = rank
        self._gone = threading.Event()
        group.subscribe(self._note)

    def _note(self, event: Event) -> None:
        of_group = event.rank is None and event.kind in ("succeeded", "failed", "stopped")
        if of_group or (event.rank == self._rank and event.kind == "exited"):
            self._gone.set()

    @property
    def pid(self) -> int:
        """The process's number; stays when it has ended."""
        return self._group.pids()[self._rank]

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        ended = self._group.exit_of(self._rank)
        if ended is None:
            return _NOBODY_KNOWS if self._group.state.final else None
        return _NOBODY_KNOWS if ended.returncode is None else ended.returncode

    def poll(self) -> int | None:
        """Give `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended, and give its `returncode`.

        timeout: seconds; None waits for ever. Raises subprocess.TimeoutExpired.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.returncode) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._gone.wait(left)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal to the process; what comes of it counts as the rank's own doing."""
        self._group.send_signal(self._rank, sig)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __repr__(self) -> str:
        return f"<Process: returncode: {self.returncode} args: {self.args}>"


class SubprocessHandler:
    """A program that was started; `proc` is its process.

    entrypoint: its name or path. args: its arguments, as text. env: variables to add to those of
    this process. stdout, stderr: paths of files; None or "": those of this process.
    local_rank_id: a number to know it by. numa_options: None.

    Raises FileNotFoundError or PermissionError if there is no such program, NotImplementedError for
    NUMA options.
    """

    def __init__(
        self,
        entrypoint: str,
        args: tuple[Any, ...],
        env: dict[str, str],
        stdout: str | None,
        stderr: str | None,
        local_rank_id: int,
        numa_options: Any = None,
    ) -> None:
        if numa_options is not None:
            raise NotImplementedError(
                "numa_options: one program alone is not bound to CPUs here; use SubprocessContext, "
                "or call os.sched_setaffinity in it"
            )
        dest = LogsDest({0: stdout or ""}, {0: stderr or ""})
        spec = command_spec(entrypoint, entrypoint, [args], [environment(as_text(env), dest, 0)])
        group = begin(spec, output_to("", 1, dest, None))
        self._of(group, 0, (entrypoint, *map(str, args)), local_rank_id)
        self._alone = True
        group.wait_started()

    @classmethod
    def of_rank(cls, group: Group, rank: int, args: Sequence[str]) -> SubprocessHandler:
        """Show a rank of a group that is being started."""
        handler = cls.__new__(cls)
        handler._of(group, rank, args, rank)
        handler._alone = False
        return handler

    def _of(self, group: Group, rank: int, args: Sequence[str], local_rank_id: int) -> None:
        self.local_rank_id = local_rank_id
        self._group = group
        self.proc = Process(group, rank, args)

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send a signal, by default SIGTERM, and return at once.

        To a program of its own and to all that it started, which get SIGKILL if they are not gone
        after 30 seconds; of a group's rank, to its process alone.
        """
        number = death_sig or signal.SIGTERM
        if self._alone:
            self._group.stop(number, wait=False)
        else:
            self.proc.send_signal(number)
