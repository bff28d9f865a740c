"""`SubprocessHandler`: a program that was started; `proc` looks like a `subprocess.Popen`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any

from procession.api.watch import RankProcess, Watch
from procession.elastic.logs import LogsDest, output_to
from procession.elastic.plan import STOP, as_text, begin_program, environment, placement_of
from procession.group.group import Group

__all__ = ["SubprocessHandler", "get_subprocess_handler"]

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
    """A program that was started; `proc` is its process.

    entrypoint: its name or path. args: its arguments. env: variables to add to those of this
    process. stdout, stderr: paths of files; None or "": those of this process. local_rank_id: a
    number to know it by. numa_options: as for `start_processes`.

    Raises FileNotFoundError or PermissionError if there is no such program.
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
        dest = LogsDest({0: stdout or ""}, {0: stderr or ""})
        added = environment(as_text(env), dest, 0)
        words = tuple(map(str, args))
        options = {"stop": STOP, "placement": placement_of(numa_options, 1)}
        group = begin_program(
            entrypoint, {0: words}, [added], output_to("", 1, dest, {}), **options
        )
        self.local_rank_id = local_rank_id
        self.proc = Process(group, Watch(group, _UNKNOWN), 0, (entrypoint, *words))
        group.wait_started()

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send a signal, by default SIGTERM, and return at once.

        To one program that was started here: also to all that it started, and what is not gone
        after 30 seconds gets SIGKILL. To a rank of several: to its process alone.
        """
        number = death_sig or signal.SIGTERM
        if self.proc.group.spec.nproc == 1:
            self.proc.group.stop(number, wait=False)
        else:
            self.proc.send_signal(number)


get_subprocess_handler = partial(SubprocessHandler)


def handlers_of(group: Group, words: Sequence[Sequence[str]]) -> dict[int, SubprocessHandler]:
    """Give a handler for each rank of a group that is being started. words: what each runs."""
    watch = Watch(group, _UNKNOWN)
    handlers: dict[int, SubprocessHandler] = {}
    for rank, args in enumerate(words):
        handler = handlers[rank] = SubprocessHandler.__new__(SubprocessHandler)
        handler.local_rank_id = rank
        handler.proc = Process(group, watch, rank, args)
    return handlers
