"""`run` and `start`: from what was asked to a running group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from procession.errors import SpecError
from procession.group import Group
from procession.policy import Logs, Restart, Stop
from procession.spec import Program, Spec, make_spec


def start(
    program: Callable[..., Any] | Sequence[str] | str | Program,
    *,
    nproc: int = 1,
    args: Sequence[Any] | Mapping[int, Sequence[Any]] = (),
    kwargs: Mapping[str, Any] | Mapping[int, Mapping[str, Any]] | None = None,
    env: Mapping[str, str | None] | Mapping[int, Mapping[str, str | None]] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str | None = None,
    start_method: str = "forkserver",
    stdin: int | None = None,
    logs: Logs | None = None,
    stop: Stop | None = None,
    restart: Restart | None = None,
) -> Group:
    """Start `nproc` copies of a program as one group, and return when all have reached it.

    program: a function (also a lambda, a closure, or one of a script or notebook), a command as a
        list of strings, or the name of a program.
    nproc: how many ranks.
    args, kwargs: for the function, or (args) for the command; common to all ranks, or a mapping
        from rank to them.
    env: variables to add to this process's environment; common or by rank. None takes one away.
    cwd: the ranks' directory; this process's if None.
    name: for reports and directories; by default the program's.
    start_method: "forkserver" (a fork of a small fresh interpreter), "spawn" (a fresh interpreter
        per rank) or "fork" (functions: a fork of this process, with its live state). A command is
        started by exec in any case.
    stdin: the rank that gets this process's standard input; the others read nothing.
    logs, stop, restart: policies; see `Logs`, `Stop`, `Restart`.

    Raises SpecError (a ValueError) before anything is started, if what is asked for cannot be done;
    StartFailed, with nothing left running, if a rank could not be started.
    """
    spec = make_spec(
        program,
        nproc=nproc,
        args=args,
        kwargs=kwargs,
        env=env,
        cwd=cwd,
        name=name,
        start_method=start_method,
        stdin=stdin,
        logs=logs,
        stop=stop,
        restart=restart,
    )
    return start_spec(spec)


def start_spec(spec: Spec) -> Group:
    """Start a group that is described by a checked `Spec`; see `start`."""
    try:
        group = Group(spec)
    except OSError as e:
        raise SpecError(f"cannot prepare the run: {e}") from e
    try:
        group.run_in_thread()
        group.wait_started()
    except KeyboardInterrupt:
        group.kill()  # of what came in between, nothing is known
        raise
    return group


def run(
    program: Callable[..., Any] | Sequence[str] | str | Program,
    *,
    nproc: int = 1,
    args: Sequence[Any] | Mapping[int, Sequence[Any]] = (),
    kwargs: Mapping[str, Any] | Mapping[int, Mapping[str, Any]] | None = None,
    env: Mapping[str, str | None] | Mapping[int, Mapping[str, str | None]] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    name: str | None = None,
    start_method: str = "forkserver",
    stdin: int | None = None,
    logs: Logs | None = None,
    stop: Stop | None = None,
    restart: Restart | None = None,
    timeout: float | None = None,
) -> list[Any]:
    """Run `nproc` copies of a program as one group, and return their values by rank.

    Parameters are those of `start`. timeout: seconds after which the group is stopped and
    TimeoutError is raised; None: no limit. The value of a rank of a command is None.

    Raises GroupFailed, with the full report, when a rank failed, and what `start` raises.
    """
    group = start(
        program,
        nproc=nproc,
        args=args,
        kwargs=kwargs,
        env=env,
        cwd=cwd,
        name=name,
        start_method=start_method,
        stdin=stdin,
        logs=logs,
        stop=stop,
        restart=restart,
    )
    with group:
        try:
            return group.wait(timeout).values
        except TimeoutError:
            group.stop()
            raise TimeoutError(
                f"{group.spec.name} was stopped: it had not ended after {timeout:g} s"
            ) from None
