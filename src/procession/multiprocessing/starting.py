"""From what was asked to running processes: one group of the core, with process objects on top.

A group starts patient for ever, see `spawn`. Ranks find the environment that they would find
without us: torchrun's variables are for programs that ask for ranks of their own.
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

from procession.errors import GroupFailed
from procession.exit import UNKNOWN_EXIT, Exit
from procession.group import Group
from procession.multiprocessing.process import RankPopen, Sentinel, Watch
from procession.policy import Logs, Stop
from procession.processes import Process, begin_processes, processes_for
from procession.rankenv import callers_environment
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

    env: variables to add to this process's, by rank; None takes one away. The rest is said by
    `start_processes`.
    """
    processes = processes_for(fn, nprocs, start_method, daemon)
    if multiprocessing.current_process().daemon:
        raise AssertionError("a daemonic process must not have children")
    sentinels = [Sentinel() for _ in processes]
    group = _begun(fn, args, processes, start_method, env)
    try:
        watch = _watched(group, sentinels)
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


def _watched(group: Group, sentinels: list[Sentinel]) -> Watch:
    whose = weakref.ref(group)

    def exit_of(rank: int) -> Exit:
        found = whose()
        return (None if found is None else found.exit_of(rank)) or UNKNOWN_EXIT

    watch = Watch(sentinels, exit_of)
    group.subscribe(watch.take)
    return watch


def _begun(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    processes: list[Process],
    start_method: str,
    own: Sequence[Variables] | None,
) -> Group:
    common = callers_environment(os.environ)
    return begin_processes(
        drop,
        fn,
        [(rank, *args) for rank in range(len(processes))],
        processes,
        env={rank: {**common, **more} for rank, more in enumerate(own)} if own else common,
        name=str(getattr(fn, "__name__", type(fn).__name__)),
        start_method=start_method,
        logs=Logs(prefix=None),
        stop=Stop(grace=GRACE, patience=None),
    )


# -- at exit, before `multiprocessing` joins all processes without asking how they are

_running: weakref.WeakKeyDictionary[Group, bool] = weakref.WeakKeyDictionary()  # daemonic?


def _finish_all() -> None:
    """End daemonic groups that still run when the interpreter exits, and wait for the others."""
    left = [(group, daemon) for group, daemon in _running.items() if not group.state.final]
    for group, daemon in left:
        if daemon:
            group.stop(wait=False)
        else:
            group.expire()  # nobody is going to join, after a failure
    for group, _ in left:
        try:
            group.wait()
        except GroupFailed as failed:
            log.error("%s", failed)


def _forget_all() -> None:
    _running.clear()


atexit.register(_finish_all)
os.register_at_fork(after_in_child=_forget_all)
