"""`spawn`, `start_processes`, and what they return: `ProcessContext`.

Theory of operation. A call is one group of the core, with `multiprocessing`'s own process objects
on top. After a failure, the other ranks go on until somebody joins, since code written for the
original says only by the `grace_period` of `join` how long they may. `join` then ends the group.
Ranks get the caller's environment, without torchrun's variables: those are for programs that are
started as ranks.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import multiprocessing.util  # pyright: ignore[reportUnusedImport] - must end after us, see below
import os
import signal
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from procession.api.processes import Process, begin_processes, processes_for
from procession.api.watch import UNKNOWN_STATUS, RankPopen, Sentinel, Watch
from procession.group.group import Group
from procession.group.result import StillRuns
from procession.multiprocessing.exceptions import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
)
from procession.values.environment import callers_environment
from procession.values.errors import GroupFailed, Outcome, RankEnd, SpecError
from procession.values.policy import Logs, Stop
from procession.worker.process import drop

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

GRACE = 30.0  # seconds from SIGTERM to SIGKILL where no grace period is given
RAISED = (Outcome.RAISED, Outcome.INTERRUPTED)
ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"  # ranks are started side by side in any case
Variables = Mapping[str, str | None]

log = logging.getLogger(__name__)


class ProcessContext:
    """The processes of one `start_processes`.

    After a failure, the other ranks go on until `join` is called. In no case do they outlive the
    process that started them.

    processes: as `multiprocessing` has them, by rank. error_files: "" for each rank; nothing is
    written to files. sentinels: descriptors that can be read from when a rank has ended,
    with that rank; those of ranks whose end `join` has reported are taken out.
    """

    def __init__(self, processes: Sequence[Process], error_files: Sequence[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: rank for rank, process in enumerate(processes)}
        self._popens: list[RankPopen] = [vars(process)["_popen"] for process in processes]

    def pids(self) -> list[int]:
        """Give the process ids, by rank."""
        return [popen.pid for popen in self._popens]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a rank has failed, or until one or more have ended well.

        Returns True when all have ended well and nothing of them is left, False if there are more
        to be joined. When a rank has failed, the others are ended, and this raises
        ProcessRaisedException or ProcessExitedException for the one that failed first. On
        KeyboardInterrupt all ranks get SIGINT, and a second one kills them.

        timeout: seconds to wait; None waits for ever. grace_period: seconds that the others may
        take after a failure to end by themselves, before they get SIGTERM, and again before they
        are killed; None: SIGTERM at once, and 30 seconds from there.
        """
        if not self._popens:
            return True
        group, watch = self._popens[0].group, self._popens[0].watch
        left = remaining(timeout)
        try:
            watch.wait(
                lambda: watch.over
                or bool(watch.failed)
                or not watch.exits.keys().isdisjoint(self.sentinels.values()),
                timeout,
            )
            if watch.failed:
                self._end_others(group, watch, grace_period)
            for sentinel in [s for s, rank in self.sentinels.items() if rank in watch.exits]:
                del self.sentinels[sentinel]
            if self.sentinels and not (watch.failed or watch.over):
                return False
            error = _error_of(group, left())
        except StillRuns:
            return False
        except KeyboardInterrupt:
            _interrupt(group)
            raise
        self._join_procs_with_timeout(0)  # for `multiprocessing`, which remembers its children
        if error is not None:
            raise error
        return True

    def _join_procs_with_timeout(self, timeout: float) -> None:
        """Wait until all processes have ended, `timeout` seconds at most."""
        left = remaining(timeout)
        for process in self.processes:
            process.join(left())

    def _end_others(self, group: Group, watch: Watch, grace_period: float | None) -> None:
        if grace_period is not None:
            self._join_procs_with_timeout(grace_period)
        for rank, process in enumerate(self.processes):
            if process.is_alive() and rank not in watch.failed:
                log.warning("Terminating process %s via signal SIGTERM", process.pid)
        group.stop(signal.SIGTERM, GRACE if grace_period is None else max(0.0, grace_period))


class SpawnContext(ProcessContext):
    """The old name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Process], error_files: Sequence[str]) -> None:
        warnings.warn(
            "SpawnContext is renamed to ProcessContext since 1.4 release: use the new name [P423]",
            stacklevel=2,
        )
        super().__init__(processes, error_files)


def remaining(timeout: float | None) -> Callable[[], float | None]:
    """Give a function that returns what is left of `timeout` seconds from now."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else max(0.0, end - time.monotonic())


def start_processes(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str | None = "spawn",
) -> ProcessContext | None:
    """Start `nprocs` processes that call `fn(i, *args)`, i from 0; their values are dropped.

    fn: any function; one that only this process has (a lambda, one of a notebook or of a script
        without a `__main__` guard) goes by value.
    args: what `fn` is called with after its number.
    nprocs: how many.
    join: wait for them; otherwise return a `ProcessContext` to do so.
    daemon: whether they are ended when this process exits, instead of waited for; they cannot have
        children of `multiprocessing` then.
    start_method: "spawn" (a fresh interpreter for each), "forkserver" (forks of a small one) or
        "fork" (forks of this process); None: the one that `multiprocessing.get_start_method` tells.

    Raises SpecError (a ValueError) before anything is started, if what is asked for cannot be done;
    StartFailed, with nothing left running, if a rank could not be started; and what
    `ProcessContext.join` raises.
    """
    return launch(fn, args, nprocs, join, daemon, start_method)


def launch(
    fn: Callable[..., Any],
    args: Iterable[Any],
    nprocs: int,
    join: bool,
    daemon: bool,
    start_method: str | None,
    env: Sequence[Variables] | None = None,
) -> ProcessContext | None:
    """Do as `start_processes`, with variables that each rank begins with.

    env: what to add to this process's environment, by rank; None takes a variable away.
    """
    if start_method is None:
        start_method = multiprocessing.get_start_method()
    if nprocs == 0:
        return None if join else ProcessContext([], [])
    call = checked(fn, args)
    processes = processes_for(fn, nprocs, start_method, daemon)
    if multiprocessing.current_process().daemon:
        raise AssertionError("a daemonic process must not have children")
    common = callers_environment(os.environ)
    group = begin_processes(
        drop,
        fn,
        [(rank, *call) for rank in range(nprocs)],
        processes,
        env={rank: {**common, **more} for rank, more in enumerate(env)} if env else common,
        name=str(getattr(fn, "__name__", type(fn).__name__)),
        start_method=start_method,
        logs=Logs(prefix=None),
        stop=Stop(grace=GRACE, patience=None),
    )
    _running[group] = daemon
    _join_to(group, processes)
    joined = ProcessContext(processes, [""] * nprocs)
    if not join:
        return joined
    join_all(joined)
    return None


def _join_to(group: Group, processes: Sequence[Process]) -> None:
    """Wait until all ranks have been reached, and make the processes stand for them."""
    try:
        sentinels = [Sentinel() for _ in processes]
        watch = Watch(group, sentinels)
        watch.wait(
            lambda: len(watch.pids) == len(watch.started) == len(processes)
            or watch.unstarted
            or watch.over
        )
        if watch.unstarted:
            group.wait()
    except BaseException:
        group.kill()
        raise
    for rank, process in enumerate(processes):
        popen = RankPopen(group, watch, rank, sentinels[rank])
        # The hook by which `multiprocessing` itself tells its kinds of processes apart.
        vars(process)["_Popen"] = popen.itself
        process.start()
        del vars(process)["_Popen"]


def join_all(context: ProcessContext) -> None:
    """Wait until all ranks have ended well. Raises what `ProcessContext.join` raises."""
    try:
        while not context.join():
            pass
    finally:
        for process in context.processes:
            if not process.is_alive():
                process.close()


def checked(fn: Any, args: Any) -> tuple[Any, ...]:
    """Give the arguments of a call as a tuple. Raises SpecError if it cannot be one."""
    if not callable(fn):
        raise SpecError(f"cannot call {fn!r}: give a function")
    try:
        return tuple(args)
    except TypeError:
        raise SpecError(f"args must be a tuple of arguments, not {args!r}") from None


def spawn(
    fn: Callable[..., Any],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Do as `start_processes` with fresh interpreters.

    start_method: "spawn"; another one is not followed, and warned of: `start_processes` has them.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn, not {start_method!r}, which is not "
            "followed; start_processes(..., start_method=...) has the other methods [P423]",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon)


# -- how it ended


def _interrupt(group: Group) -> None:
    try:
        group.stop(signal.SIGINT)
    except KeyboardInterrupt:
        group.kill()
        raise


def _error_of(group: Group, timeout: float | None) -> ProcessException | None:
    """Wait for the end of a group; give what to raise for it. Raises StillRuns."""
    failed: GroupFailed | None = None
    try:
        ends = group.wait(timeout).ranks
    except GroupFailed as e:
        failed, ends = e, (*e.failures, *e.ended)
    # To leave by `os._exit(0)` before the function returned is a good end here.
    bad = next((end for end in ends if end.outcome in RAISED or not end.exit.ok), None)
    if bad is None:
        return None
    if bad.outcome in RAISED:
        text = f"\n\n-- Process {bad.rank} terminated with the following error:\n{bad.traceback}"
        error = ProcessRaisedException(text, bad.rank, bad.pid or 0)
        if failed is not None and failed.cause is bad:
            error.__cause__ = failed.__cause__
    else:
        error = _exited(bad)
        error.__cause__ = failed
    return error


def _exited(end: RankEnd) -> ProcessExitedException:
    code = end.exit.returncode if end.announced is None else end.announced
    if code is None:
        code = UNKNOWN_STATUS
    name = None
    how = f"exit code {code}"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        how = f"signal {name}"
    text = f"process {end.rank} terminated with {how}"
    return ProcessExitedException(text, end.rank, end.pid or 0, code, name)


# -- at exit, before `multiprocessing` joins all processes without asking how they are

_running: weakref.WeakKeyDictionary[Group, bool] = weakref.WeakKeyDictionary()  # daemonic?


def _finish_all() -> None:
    """End daemonic groups that still run when the interpreter exits, and wait for the others."""
    left = [(group, daemon) for group, daemon in _running.items() if not group.state.final]
    for group, daemon in left:
        if daemon:
            group.stop(wait=False)
        else:
            group.driver.request_impatience()  # after a failure, nothing else is going to join
    for group, _ in left:
        try:
            group.wait()
        except GroupFailed as failed:
            log.error("%s", failed)


def _forget_all() -> None:
    _running.clear()


atexit.register(_finish_all)
os.register_at_fork(after_in_child=_forget_all)
