"""What a group's agent imports before it forks: chosen by what the group will run.

`plan_of` tells what a program will import, `preload_of` which of these modules the agent
imports, and which variables they read. The rest of this package is imported where it is needed:
many launches need none of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from procession.agent.pool import NOTHING
from procession.agent.wanted import Preload
from procession.values.program import Function, Module, Script
from procession.values.spec import Spec

BY_VALUE = ("cloudpickle", "cloudpickle.cloudpickle")  # what functions that travel so need

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType

    from procession.preload.plan import Plan


def plan_of(
    spec: Spec, named: Iterable[str] = (), functions: Iterable[FunctionType] = ()
) -> Plan | None:
    """Find what a program will import and can be imported early; None: nothing is preloaded.

    named, functions: the modules that the pickles of a function and its arguments name, and the
    functions that are in these.
    """
    if spec.preload is None or not spec.is_python or spec.start_method != "forkserver":
        return None
    from procession.preload.plan import Plan

    if spec.preload != "auto":
        return Plan(spec.preload)
    # What one of several programs imports is nothing to the others.
    if spec.programs or os.environ.get("PROCESSION_PRELOAD") == "none":
        return None
    if isinstance(spec.program, Function) and not _heavy():
        # To read the list would take longer than it saves.
        return Plan(BY_VALUE) if BY_VALUE[-1] in named else None
    program = spec.program
    if isinstance(program, Function):
        if program.main is None:
            from procession.preload.read import plan_function

            return plan_function(named, functions, sys.modules, sys.path)
        program = program.main
    from procession.preload.read import plan_module, plan_script

    function = program is not spec.program
    if isinstance(program, Script):
        path = os.path.join(spec.cwd, program.path)
        first = os.path.dirname(os.path.realpath(path))
        return plan_script(path, sys.path if function else _search_path(first))
    assert isinstance(program, Module)
    return plan_module(program.name, sys.path if function else _search_path(spec.cwd))


def _heavy() -> bool:
    """Whether this process has imported anything but the standard library and this package."""
    ours = {"__main__", "__mp_main__", "procession", "cloudpickle", "tblib", "sitecustomize"}
    known = sys.stdlib_module_names | ours
    return any("." not in name and name not in known for name in list(sys.modules))


def _search_path(first: str) -> list[str]:
    isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    return [*([] if isolated else [first]), *(p for p in sys.path if p)]


def common_variables(envs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Give the variables that all ranks have, with the same value. envs: those of each rank."""
    common = dict(envs[0])
    for env in envs[1:]:
        if not common.items() <= env.items():
            common = {n: v for n, v in common.items() if env.get(n) == v}
    return common


def preload_of(
    spec: Spec,
    plan: Plan | None,
    envs: Sequence[Mapping[str, str]],
    path: Sequence[str] | None = None,
    *,
    watched: bool = False,
) -> Preload:
    """Say what an agent is to import: what is planned, then what is imported later.

    envs: the variables of each rank. A module that reads a variable in which ranks differ is left
    to them. path: the `sys.path` of a function's ranks. watched: the imports are watched, so that
    later launches can use them while nothing changes.
    """
    preload = NOTHING if plan is None or not plan.modules else _preload_of(spec, plan, envs, path)
    return preload.__replace__(own=_why_not_kept(spec, preload), watched=watched)


def _preload_of(
    spec: Spec, plan: Plan, envs: Sequence[Mapping[str, str]], path: Sequence[str] | None
) -> Preload:
    from procession.preload import safe
    from procession.values.environment import among

    common = common_variables(envs)
    differ = {n for e in envs for n in e if n not in common}
    verdicts = {name: safe.verdict(name) for name in (*plan.modules, *plan.later)}
    distinct = {id(v): v for v in verdicts.values()}  # many modules share one
    split = {i for i, v in distinct.items() if any(among(v.variables, n) for n in differ)}
    modules = [name for name, v in verdicts.items() if id(v) not in split]
    if not modules:
        return NOTHING
    sets = {name: safe.verdict(name).sets for name in modules}
    late = {each for name in plan.later for each in sets.get(name, ())}
    return Preload(
        modules=tuple(modules),
        env=common,
        reads=tuple(sorted(safe.reads(modules))),
        path=None if path is None else tuple(path),
        cwd=spec.cwd,
        unset=tuple(late.difference(*(sets.get(name, ()) for name in plan.modules))),
        listed=spec.preload == "auto",
    )


def _why_not_kept(spec: Spec, preload: Preload) -> str:
    """Say why an agent that has served this group is of no use to another one, "" if it is.

    What the user's own code has read, nobody knows. So only that is kept which has imported
    nothing but installed packages of the list.
    """
    if spec.shared is not None:
        return "it has run the shared set-up"
    if spec.preload == "auto":
        return ""  # the plan has no others
    from procession.preload import safe
    from procession.preload.find import ModuleKind, Search

    search = Search(sys.path if preload.path is None else preload.path)
    for name in preload.modules:
        installed = search.find(name).kind in (ModuleKind.STANDARD, ModuleKind.INSTALLED)
        if not installed or safe.why_not(name, search):
            return f"it has imported {name}, which is not on the list of packages that may be kept"
    return ""
