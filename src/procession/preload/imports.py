"""What can be preloaded for a script, a module or a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from procession.preload import safe
from procession.preload.find import Kind, Search, with_packages
from procession.preload.plan import Plan, StoppedAt, explain, nothing
from procession.preload.reader import Reader, hides, unless, variables

__all__ = ["Plan", "StoppedAt", "explain", "plan_function", "plan_module", "plan_script"]


def plan_script(path: str, sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for `python PATH`.

    path: the script.
    sys_path: the `sys.path` that its ranks will have: the script's own directory first, unless the
        interpreter is isolated.

    Never raises: what cannot be read gives an empty plan with the reason.
    """
    return Reader(sys_path).script(path)


def plan_module(name: str, sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for `python -m NAME`; otherwise as `plan_script`.

    sys_path: the ranks' `sys.path`: the working directory first, unless the interpreter is
        isolated.
    """
    return Reader(sys_path).module(name)


def plan_function(modules: Mapping[str, object], sys_path: Sequence[str]) -> Plan:
    """Tell what can be preloaded for a function, from what the launcher has loaded.

    modules: the launcher's `sys.modules`.
    sys_path: the launcher's `sys.path`.

    Modules of the standard library are left out: the launcher has many that no rank needs, and
    they cost more than they save.
    """
    search = Search(sys_path)
    hidden = search.in_the_way(safe.packages() - {"procession"})
    if hidden is not None:
        return nothing(hidden[1], hides(hidden[0]))
    names = list(modules)
    tops = {name.partition(".")[0] for name in names}
    installed = {t for t in tops & safe.packages() if search.find(t).kind is Kind.INSTALLED}
    taken: dict[str, None] = {}
    skipped: dict[str, str] = {}
    for name in names:
        top = name.partition(".")[0]
        if top == "procession" or not (top in installed or name == top):
            continue
        verdict = safe.verdict(name)
        there = next((u for u in verdict.unless if search.find(u).kind is not Kind.MISSING), None)
        spec = getattr(modules[name], "__spec__", None)
        if not verdict.safe or there is not None or top not in installed:
            if name == top and _is_installed(search, name):
                skipped[name] = unless(there) if there else verdict.reason
        elif getattr(spec, "name", None) == name and getattr(spec, "has_location", False):
            # Modules stand in the order in which their imports ended; packages are begun first.
            taken.update(dict.fromkeys(n for n in with_packages(name) if n in modules))
    return Plan(tuple(taken), tuple(skipped.items()), None, variables(taken))


def _is_installed(search: Search, name: str) -> bool:
    return search.find(name).kind is Kind.INSTALLED
