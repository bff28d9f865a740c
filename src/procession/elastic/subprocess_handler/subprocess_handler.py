"""`SubprocessHandler`: a running program; its `proc` looks like a `subprocess.Popen`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any

from procession.api.watch import RankProcess, Watch
from procession.elastic.logs import LogsDest
from procession.elastic.output import output_to
from procession.elastic.plan import as_text, command_spec, environment
from procession.group.group import Group
from procession.group.making import begin

__all__ = ["SubprocessHandler"]

_get_default_signal = partial(signal.Signals, signal.SIGTERM)  # by this name users know it
_UNKNOWN = 1  # the exit code of a process whose status is not known


class Process(RankProcess):
    """The process of a rank, with the attributes of a `subprocess.Popen` that is not piped.

    args: its command line. It is not a child of this process: `os.waitpid` does not know it.
    """

    def __init__(self, group: Group, watch: Watch, rank: int, args: Sequence[str]) -> None:
        super().__init__(group, watch, rank)
        self.args = tuple(args)

    def ended(self, timeout: float | None) -> int | None:
        """Wait for the end; as in the base, but a rank that could not be ended has a code, too."""
        code = super().ended(timeout)
        return _UNKNOWN if code is None and self.watch.over else code

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
        self.local_rank_id = local_rank_id
        self.proc = Process(group, Watch(group, _UNKNOWN), 0, (entrypoint, *map(str, args)))
        self._group = group
        self._alone = True
        group.wait_started()

    @classmethod
    def of_ranks(cls, group: Group, words: Sequence[Sequence[str]]) -> dict[int, SubprocessHandler]:
        """Give a handler for each rank of a group that is being started. words: what each runs."""
        watch = Watch(group, _UNKNOWN)
        handlers: dict[int, SubprocessHandler] = {}
        for rank, args in enumerate(words):
            handler = handlers[rank] = cls.__new__(cls)
            handler.local_rank_id = rank
            handler.proc = Process(group, watch, rank, args)
            handler._group = group
            handler._alone = False
        return handlers

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
