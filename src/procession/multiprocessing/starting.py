"""Starts one group of the core, and makes `multiprocessing`'s process objects for its ranks.

A failure ends no other rank by itself, see `spawn`. Ranks get the caller's environment, without
torchrun's variables: those are for programs that are started as ranks.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import multiprocessing.util  # pyright: ignore[reportUnusedImport] - must end after us, see below
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.api.processes import Process, begin_processes, processes_for
from procession.api.watch import Watch
from procession.group.group import Group
from procession.multiprocessing.process import UNKNOWN_STATUS, RankPopen, Sentinel
from procession.values.environment import callers_environment
from procession.values.errors import GroupFailed
from procession.values.policy import Logs, Stop
from procession.worker.process import drop

GRACE = 30.0  # seconds from SIGTERM to SIGKILL where no grace period is given

Variables = Mapping[str, str | None]

log = logging.getLogger("procession.multiprocessing.spawn")


def start(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    nprocs: int,
    daemon: bool,
    start_method: str,
    env: Sequence[Variables] | None = None,
) -> list[Process]:
    """Start a group, and return its processes when all ranks have been reached.

    env: variables to add to this process's, by rank; None takes one away. The others are
    those of `start_processes`.
    """
    processes = processes_for(fn, nprocs, start_method, daemon)
    if multiprocessing.current_process().daemon:
        raise AssertionError("a daemonic process must not have children")
    sentinels = [Sentinel() for _ in processes]
    common = callers_environment(os.environ)
    group = begin_processes(
        drop,
        fn,
        [(rank, *args) for rank in range(nprocs)],
        processes,
        env={rank: {**common, **more} for rank, more in enumerate(env)} if env else common,
        name=str(getattr(fn, "__name__", type(fn).__name__)),
        start_method=start_method,
        logs=Logs(prefix=None),
        stop=Stop(grace=GRACE, patience=None),
    )
    try:
        left = dict(enumerate(sentinels))  # of ranks that have not ended
        watch = Watch(group, UNKNOWN_STATUS, lambda rank: left.pop(rank).ring())
        watch.wait(
            lambda: len(watch.pids) == len(watch.started) == nprocs or watch.unstarted or watch.over
        )
        if watch.unstarted:
            group.wait()
    except BaseException:
        group.kill()
        raise
    _running[group] = daemon
    for rank, process in enumerate(processes):
        popen = RankPopen(group, watch, rank, sentinels[rank])
        # The hook by which `multiprocessing` itself tells its kinds of processes apart.
        vars(process)["_Popen"] = popen.itself
        process.start()
        del vars(process)["_Popen"]
    return processes


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
