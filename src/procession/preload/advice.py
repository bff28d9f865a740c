"""Advice about imports that each rank makes though it need not: given once for each program."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable

from procession.preload import safe
from procession.preload.plan import AFTER, Plan
from procession.preload.started import remember, remembered

FILE, MOST = "advised.json", 200


def advice(plan: Plan, program: str, *, again: bool = False) -> str:
    """Say what a program imports in each rank and need not, and what to type.

    "" if there is nothing, or if it was said before of this program (its directory and name).
    again: say it all the same, and do not count this time.
    """
    ours = {n for n, why in plan.skipped if why == safe.UNKNOWN}
    ours |= {n for n, why in plan.skipped if why.startswith(AFTER) and not safe.verdict(n).reason}
    names = sorted(_tops(ours))
    told = [each for each in remembered(FILE) or () if isinstance(each, int)]
    key = zlib.crc32("\0".join((program, *names)).encode(errors="replace"))
    if not names or (key in told and not again):
        return ""
    if not again:
        remember(FILE, [*told, key][-MOST:])
    all_of_it = dict.fromkeys([*_tops(plan.modules), *plan.later, *names])
    return (
        f"each rank imports {', '.join(names)}: --preload {','.join(all_of_it)} imports "
        "all of it once, if none of them starts a thread [P403]"
    )


def _tops(modules: Iterable[str]) -> dict[str, None]:
    """Give the packages of some modules that are not of the standard library."""
    tops = (name.partition(".")[0] for name in modules)
    return dict.fromkeys(top for top in tops if top not in sys.stdlib_module_names)
