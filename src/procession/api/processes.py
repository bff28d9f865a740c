"""Groups of functions whose ranks are processes as `multiprocessing` knows them.

They have the name and the parent that they would have there. Under `spawn` and `forkserver` alike
they are forks of our agent, which has imported what they are going to import anyway. A main
module that guards its start is imported again in them, before function and arguments are unpickled;
what cannot be found by name then, lambdas and scripts without a guard for two, goes by value. See
`worker.process`.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import multiprocessing.spawn
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from procession.group.group import Group
from procession.group.making import begin_group
from procession.output.wiring import Output
from procession.preload.source import is_guarded
from procession.values.errors import SpecError
from procession.values.program import Function, Module, Script
from procession.values.spec import Spec, make_spec
from procession.worker import process as worker

Process = multiprocessing.process.BaseProcess


def processes_for(
    fn: Callable[..., Any], nproc: int, start_method: str, daemon: bool = False
) -> list[Process]:
    """Make `multiprocessing`'s objects for ranks to be; they take its next numbers and names.

    Raises SpecError if that function cannot be started so.
    """
    make_spec(fn, nproc=nproc, start_method=start_method)  # refuses what cannot be
    method: Any = multiprocessing.get_context(start_method)
    return [method.Process(daemon=daemon) for _ in range(nproc)]


def begin_processes(
    how: Callable[..., Any],
    fn: Callable[..., Any],
    args: Sequence[tuple[Any, ...]],
    processes: Sequence[Process],
    *,
    start_method: str,
    output: Output | None = None,
    **options: Any,
) -> Group:
    """Make a group of ranks that call `how(fn, *args)`, and return while it starts.

    how: a function of a module, whose value is the rank's. args, processes: by rank. output: as for
    `group.making.begin`. options: the others of `make_spec`.

    Raises what `group.making.begin` raises, and RuntimeError in a rank that is just importing its
    main module, which thus has no guard where it needs one.
    """
    fork = start_method == "fork"
    identities = [_identity(process, fork) for process in processes]

    def spec(program: Function, args: Any, kwargs: Any = None) -> Spec:
        return make_spec(
            program,
            nproc=len(processes),
            args=args,
            kwargs=kwargs,
            start_method="fork" if fork else "forkserver",
            **options,
        )

    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not fork and is_guarded(path or ""):
        again = {i: (worker.Again(me, how, fn, args[i]),) for i, me in enumerate(identities)}
        try:
            return begin_group(spec(Function(worker.call, _main_of(identities[0])), again), output)
        except SpecError:
            pass  # something can only go by value; or not at all, and what follows says why
    for me in identities:
        for main in ("name", "path") if not fork else ():
            me["preparation"].pop(f"init_main_from_{main}", None)
    who = {i: {"identity": me} for i, me in enumerate(identities)}
    return begin_group(spec(Function(worker.ByValue(how, fn)), dict(enumerate(args)), who), output)


def _identity(process: Process, fork: bool) -> worker.Identity:
    """Describe a process to be, for `worker.process.become`."""
    preparation: dict[str, Any] | None = None
    if not fork:
        preparation = multiprocessing.spawn.get_preparation_data(process.name)
        del preparation["authkey"]  # travels with what the core sends
    return {
        "name": process.name,
        "number": vars(process)["_identity"],
        "daemon": process.daemon,
        "parent": (multiprocessing.current_process().name, os.getpid()),
        "preparation": preparation,
    }


def _main_of(identity: worker.Identity) -> Script | Module | None:
    """Give the main program that such a process imports again."""
    preparation = identity["preparation"]
    path, name = (preparation.get(f"init_main_from_{how}") for how in ("path", "name"))
    return Script(path) if path else Module(name) if name else None
