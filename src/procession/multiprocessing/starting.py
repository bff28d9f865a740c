"""From what was asked to running processes: one group of the core, with process objects on top.

A group starts patient for ever, see `spawn`. Ranks find the environment that they would find
without us: torchrun's variables are for programs that ask for ranks of their own.
"""

from __future__ import annotations

import ast
import atexit
import logging
import multiprocessing
import multiprocessing.process
import multiprocessing.spawn
import multiprocessing.util  # pyright: ignore[reportUnusedImport] - must end after us, see below
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.errors import GroupFailed, SpecError
from procession.exit import UNKNOWN_EXIT, Exit
from procession.group import Group
from procession.launch import begin
from procession.multiprocessing.process import RankPopen, Sentinel, Watch
from procession.policy import Logs, Stop
from procession.rankenv import Place, rank_environment
from procession.spec import Spec, make_spec
from procession.worker import numbered

GRACE = 30.0  # seconds from SIGTERM to SIGKILL where no grace period is given

Process = multiprocessing.process.BaseProcess
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
    make_spec(fn, nproc=nprocs, start_method=start_method)  # refuses what cannot be
    if multiprocessing.current_process().daemon:
        raise AssertionError("a daemonic process must not have children")
    method: Any = multiprocessing.get_context(start_method)
    processes: list[Process] = [method.Process(daemon=daemon) for _ in range(nprocs)]
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


# -- what ranks call


def _begun(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    processes: list[Process],
    start_method: str,
    own: Sequence[Variables] | None,
) -> Group:
    fork = start_method == "fork"
    common = _callers_environment()
    env = {rank: {**common, **more} for rank, more in enumerate(own)} if own else common
    identities = [_identity(process, fork) for process in processes]

    def spec(program: Callable[..., Any], args: Any, kwargs: Any = None) -> Spec:
        return make_spec(
            program,
            nproc=len(processes),
            args=args,
            kwargs=kwargs,
            env=env,
            name=str(getattr(fn, "__name__", type(fn).__name__)),
            start_method=start_method,
            logs=Logs(prefix=None),
            stop=Stop(grace=GRACE, patience=None),
        )

    if not fork and _main_is_guarded():
        again = {i: (numbered.Again(me, fn, (i, *args)),) for i, me in enumerate(identities)}
        try:
            return begin(spec(numbered.call, again))
        except SpecError:
            pass  # something can only go by value; or not at all, and what follows says why
    for me in identities:
        for how in ("name", "path") if not fork else ():
            me["preparation"].pop(f"init_main_from_{how}", None)
    numbers = {i: (i, *args) for i in range(len(processes))}
    who = {i: {"identity": me} for i, me in enumerate(identities)}
    return begin(spec(numbered.Numbered(fn), numbers, who))


def _identity(process: Process, fork: bool) -> numbered.Identity:
    """Describe a process to be, for `numbered.become`."""
    preparation: dict[str, Any] | None = None
    if not fork:
        # Raises RuntimeError in a rank that is just importing its main module.
        preparation = multiprocessing.spawn.get_preparation_data(process.name)
        del preparation["authkey"]  # travels with what the core sends
    return {
        "name": process.name,
        "number": vars(process)["_identity"],
        "daemon": process.daemon,
        "parent": (multiprocessing.current_process().name, os.getpid()),
        "preparation": preparation,
    }


def _main_is_guarded() -> bool:
    """Tell whether the main module can be imported again: its start stands under a `__name__`."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        with open(path or "", "rb") as f:
            tree = ast.parse(f.read())
    except (OSError, ValueError, SyntaxError):
        return False
    tests = [ast.walk(node.test) for node in tree.body if isinstance(node, ast.If)]
    return any(isinstance(n, ast.Name) and n.id == "__name__" for test in tests for n in test)


def _callers_environment() -> dict[str, str | None]:
    """Give what undoes the variables that ranks otherwise get."""
    nowhere = Place(address="", port=0, run_id="", attempt=0, restarts=0, cores=1)
    added = rank_environment(nowhere, 0, 2, "", "", {}).keys() - {"PROCESSION_RUN"}
    return {name: os.environ.get(name) for name in added}


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
