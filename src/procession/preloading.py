"""Which modules a group's forkserver imports before it forks, from what the group will run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from procession.forkserver.pool import Preload
from procession.spec import Command, Function, Module, Script, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.preload.plan import Plan


def plan_of(spec: Spec) -> Plan | None:
    """Find what can be imported early for a program; None where nothing can, or shall, be."""
    if spec.preload is None or isinstance(spec.program, Command):
        return None
    if spec.start_method != "forkserver":
        return None
    if spec.preload != "auto":
        from procession.preload.plan import Plan

        return Plan(spec.preload)
    if isinstance(spec.program, Function) and not _heavy():
        return None  # not even the reading of the list is worth its time
    from procession.preload import imports

    if isinstance(spec.program, Function):
        return imports.plan_function(sys.modules, sys.path)
    if isinstance(spec.program, Script):
        path = os.path.join(spec.cwd, spec.program.path)
        return imports.plan_script(path, _search_path(os.path.dirname(os.path.realpath(path))))
    assert isinstance(spec.program, Module)
    return imports.plan_module(spec.program.name, _search_path(spec.cwd))


def _heavy() -> bool:
    """Whether this process has imported anything but the standard library and this package."""
    ours = {"__main__", "__mp_main__", "procession", "cloudpickle", "tblib", "sitecustomize"}
    known = sys.stdlib_module_names | ours
    return any("." not in name and name not in known for name in list(sys.modules))


def _search_path(first: str) -> list[str]:
    isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    return [*([] if isolated else [first]), *(p for p in sys.path if p)]


def preload_of(spec: Spec, plan: Plan | None, envs: Sequence[Mapping[str, str]]) -> Preload | None:
    """Say what a forkserver is to import for a plan, given the variables of each rank.

    What reads a variable as it is imported is left to the ranks if they do not agree on it.
    """
    if plan is None or not plan.modules:
        return None
    from procession.preload import safe

    common = {n: v for n, v in envs[0].items() if all(e.get(n) == v for e in envs[1:])}
    differ = {n for e in envs for n in e if n not in common}
    modules: list[str] = []
    read: set[str] = set()
    for name in plan.modules:
        variables = safe.verdict(name).variables
        if not any(safe.reads(variables, n) for n in differ):
            modules.append(name)
            read.update(variables)
    if not modules:
        return None
    path = [os.path.abspath(p) for p in sys.path] if isinstance(spec.program, Function) else None
    seen = tuple(sorted(i for i in common.items() if safe.reads(read, i[0])))
    key = (tuple(modules), seen, tuple(path or ()))
    return Preload(key, {"modules": modules, "env": common, "path": path})
