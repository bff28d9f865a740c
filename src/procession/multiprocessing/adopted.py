"""What `torch.multiprocessing.start_processes` does where its callers have adopted procession.

The ranks are those of `spawn`; what their callers catch is torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from procession.adoption import hooks
from procession.multiprocessing.exceptions import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
)
from procession.multiprocessing.spawn import ProcessContext, join_all, launch


def start_processes(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str | None = "spawn",
) -> ProcessContext | None:
    """Do as `procession.multiprocessing.start_processes`, but raise torch's exceptions."""
    started = launch(fn, args, nprocs, False, daemon, start_method)
    assert started is not None
    context = _Context(started.processes, started.error_files)
    if join:
        join_all(context)
        return None
    return context


class _Context(ProcessContext):
    """Raises torch's exceptions."""

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        try:
            return super().join(timeout, grace_period)
        except ProcessException as e:
            raise _torchs(e) from e.__cause__


def _torchs(e: ProcessException) -> Exception:
    theirs: Any = hooks.original(hooks.SPAWN).__globals__
    if isinstance(e, ProcessExitedException):
        made = theirs["ProcessExitedException"]
        return made(e.msg, e.error_index, e.error_pid, e.exit_code, e.signal_name)
    assert isinstance(e, ProcessRaisedException)
    return theirs["ProcessRaisedException"](e.msg, e.error_index, e.error_pid)
