"""What can be preloaded for a script or a module."""

from __future__ import annotations

from collections.abc import Sequence

from procession.preload.plan import Plan, StoppedAt, explain
from procession.preload.reader import Reader

__all__ = ["Plan", "StoppedAt", "explain", "plan_module", "plan_script"]


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
