"""Which modules a group's forkserver imports before it forks, from what the group will run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from procession.forkserver.pool import NOTHING, Preload
from procession.named import Named
from procession.payload import Packed
from procession.spec import Function, Module, Script, Spec

BY_VALUE = ("cloudpickle", "cloudpickle.cloudpickle")  # what functions that travel so need

TYPE_CHECKING = False
if TYPE_CHECKING:
    from procession.preload.plan import Plan


def plan_of(spec: Spec, named: Named) -> Plan | None:
    """Find what can be imported early for a program; None where nothing can, or shall, be.

    named: what the payload of a function names.
    """
    if spec.preload is None or not spec.is_python:
        return None
    if spec.start_method != "forkserver":
        return None
    if spec.preload != "auto":
        from procession.preload.plan import Plan

        return Plan(spec.preload)
    if os.environ.get("PROCESSION_PRELOAD") == "none":
        return None
    if spec.programs:
        return None  # what one of them imports is nothing to the others
    if isinstance(spec.program, Function) and not _heavy():
        # Not even the reading of the list is worth its time.
        from procession.preload.plan import Plan

        return Plan(BY_VALUE) if BY_VALUE[-1] in named.modules else None
    program = spec.program
    if isinstance(program, Function):
        if program.main is None:
            from procession.preload.function import plan_function

            return plan_function(named.modules, named.functions, sys.modules, sys.path)
        program = program.main
    from procession.preload import imports

    function = program is not spec.program
    if isinstance(program, Script):
        path = os.path.join(spec.cwd, program.path)
        first = os.path.dirname(os.path.realpath(path))
        return imports.plan_script(path, sys.path if function else _search_path(first))
    assert isinstance(program, Module)
    return imports.plan_module(program.name, sys.path if function else _search_path(spec.cwd))


def learns(spec: Spec, plan: Plan) -> bool:
    """Tell whether it is of use to know what the program has imported at its end."""
    return spec.preload == "auto" and spec.learn and not set(plan.modules) <= set(BY_VALUE)


def _heavy() -> bool:
    """Whether this process has imported anything but the standard library and this package."""
    ours = {"__main__", "__mp_main__", "procession", "cloudpickle", "tblib", "sitecustomize"}
    known = sys.stdlib_module_names | ours
    return any("." not in name and name not in known for name in list(sys.modules))


def _search_path(first: str) -> list[str]:
    isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    return [*([] if isolated else [first]), *(p for p in sys.path if p)]


def preload_of(
    spec: Spec, plan: Plan, learned: Sequence[str], envs: Sequence[Mapping[str, str]]
) -> Preload:
    """Say what a forkserver is to import: what is planned, then what was learned.

    envs: the variables of each rank. What reads a variable as it is imported is left to the ranks
    if they do not agree on it.
    """
    from procession.preload import safe
    from procession.preload.variables import among

    common = {n: v for n, v in envs[0].items() if all(e.get(n) == v for e in envs[1:])}
    differ = {n for e in envs for n in e if n not in common}
    agreed: dict[int, bool] = {}  # by verdict, which many modules share
    read: set[str] = set()
    modules: dict[str, None] = {}
    for name in (*plan.modules, *learned):
        variables = safe.verdict(name).variables
        if id(variables) not in agreed:
            agreed[id(variables)] = not any(among(variables, n) for n in differ)
            if agreed[id(variables)]:
                read.update(variables)
        if agreed[id(variables)]:
            modules[name] = None
    if not modules:
        return NOTHING
    function = isinstance(spec.program, Function)
    path = tuple(os.path.abspath(p) for p in sys.path) if function else None
    if isinstance(spec.program, Function) and isinstance(spec.program.call, Packed):
        path = tuple(spec.program.call.told["sys_path"])
    late = modules.keys() - set(plan.modules)
    return Preload(
        modules=tuple(modules),
        env=common,
        reads=tuple(sorted(read)),
        path=path,
        cwd=spec.cwd,
        late=len(late),
        sets=tuple({name for each in late for name in safe.verdict(each).sets}),
        listed=spec.preload == "auto",
    )
