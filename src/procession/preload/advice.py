"""Advice about imports that each rank makes though it need not: given once for each script."""

from __future__ import annotations

import hashlib
import os
import sys

from procession.preload import safe
from procession.preload.plan import AFTER, Plan
from procession.system.directories import read_cached, write_cached

CACHE = "advice"


def advice(plan: Plan, script: str) -> str:
    """Say what a script imports in each rank and need not, and what to type.

    "" if there is nothing, or if it was said before.
    """
    ours = {n for n, why in plan.skipped if why == safe.UNKNOWN}
    ours |= {n for n, why in plan.skipped if why.startswith(AFTER) and safe.verdict(n).safe}
    names = sorted({_top(name) for name in ours} - sys.stdlib_module_names)
    key = hashlib.sha256("\0".join((os.path.realpath(script), *names)).encode()).hexdigest()[:32]
    if not names or read_cached(CACHE, key, 0) is not None:
        return ""
    write_cached(CACHE, key, b"")
    planned = [top for top in map(_top, plan.modules) if top not in sys.stdlib_module_names]
    all_of_it = dict.fromkeys([*planned, *plan.later, *names])
    return (
        f"each rank imports {', '.join(names)}: --preload {','.join(all_of_it)} imports all of it "
        "once, if none of them starts a thread [P403]"
    )


def _top(module: str) -> str:
    return module.partition(".")[0]
