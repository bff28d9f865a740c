"""What to preload, what not, and why: the result of reading a program."""

from __future__ import annotations

import os
from itertools import groupby

from procession.values.base import Value

AFTER = "it comes after"  # the beginning of a reason


class StoppedAt(Value):
    """The place up to which a program was read, and why reading ended there."""

    file: str
    line: int
    reason: str


class Plan(Value):
    """Which modules the agent may import before it forks.

    modules: in the order in which the program imports them, packages before their submodules. A
        submodule may also be the name of something else in its package, by which the program
        means that: it is to be imported only if its package has nothing of its name after the
        package's import.
    skipped: (module, why not), for what the program imports and is left to the ranks.
    stopped_at: where reading stopped, None if the program was read to its end.
    later: what packages of these modules will import when the program uses them; see `later`.
    """

    modules: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    stopped_at: StoppedAt | None = None
    later: tuple[str, ...] = ()


def explain(plan: Plan) -> list[str]:
    """Give the lines that say what would be preloaded, what not, and why."""
    lines: list[str] = []
    if plan.modules:
        lines.append("preloaded, in this order:")
        runs = groupby(plan.modules, key=lambda name: name.partition(".")[0])
        lines += [f"  {', '.join(run)}" for _, run in runs]
    else:
        lines.append("preloaded: nothing")
    if plan.later:
        later = ", ".join(plan.later)
        lines.append(f"and {later}, which the program's packages import when it uses them")
    if plan.skipped:
        lines.append("left to the ranks:")
        lines += [f"  {name}: {reason}" for name, reason in plan.skipped]
    if plan.stopped_at is not None:
        at = plan.stopped_at
        where = f"{os.path.relpath(at.file)}:{at.line}" if at.line else at.file
        # The line itself stays in its file: it may hold a secret.
        lines.append(f"read up to {where}: {at.reason}")
    return lines
