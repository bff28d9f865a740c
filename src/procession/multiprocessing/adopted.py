"""What `torch.multiprocessing.start_processes` does where its callers have adopted procession.

The ranks are those of `spawn`; what their callers catch is torch's.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

from procession.adoption import hooks
from procession.multiprocessing.exceptions import ProcessException
from procession.multiprocessing.spawn import ProcessContext, join_all, launch


def start_processes(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str | None = "spawn",
) -> ProcessContext | None:
    """Do as `procession.multiprocessing.start_processes`, but give and raise what torch does.

    nprocs: what is no whole number raises TypeError; less than 0 is 0.
    """
    theirs = vars(sys.modules[hooks.SPAWN])
    started = launch(fn, args, max(0, operator.index(nprocs)), False, daemon, start_method)
    assert started is not None
    # Callers ask whether it is torch's.
    kind: Any = type("ProcessContext", (_Context, theirs["ProcessContext"]), {"theirs": theirs})
    context: ProcessContext = kind(started.processes, started.error_files)
    if join:
        join_all(context)
        return None
    return context


class _Context(ProcessContext):
    """Raises torch's exceptions. theirs: the names in torch's module."""

    theirs: Any

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        try:
            return super().join(timeout, grace_period)
        except ProcessException as e:
            kind, values = e.__reduce__()
            raise self.theirs[kind.__name__](*values) from e.__cause__
