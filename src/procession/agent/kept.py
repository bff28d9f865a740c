"""An agent between two launches: what it gives up, and how the next launcher takes it over.

Theory of operation. A launcher whose run is over asks its agent to change its owner to the
keeper ("keep"). The agent must then have nothing left of the run: no process below it, no
descriptor, no variable, no argument. It checks that, and reports what is left. Later another
launcher asks it to become its own ("take"), and sends its own limits, priorities and more
(`system.facts`). The agent sets those that a process can set, reads all of them again, and
sends them back for the launcher to compare.

Descriptors that imports have left open stay: they were there before the first rank.
"""

from __future__ import annotations

import os

from procession.agent.owner import Owner
from procession.system import tree
from procession.system.files import descriptors
from procession.worker.shown import show_mark

TYPE_CHECKING = False  # `typing` takes 7 ms to import, which every launch would pay
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any

    from procession.agent.preload import Preloaded
    from procession.system.eventloop import EventLoop


def check(preloaded: Preloaded | None, before: set[int]) -> str:
    """Give why this process cannot be kept, "" if it can.

    before: the descriptors that were open when the run began, and those that belong to no run.
    """
    layers = preloaded.layers if preloaded is not None else None
    if preloaded is None or layers is None:
        return "nobody observed its imports"
    if preloaded.fault or layers.fault:
        return preloaded.fault or layers.fault
    if tree.children():
        return "a process of the run is left"
    if len(os.listdir("/proc/self/task")) > 1:
        return "it has a thread"
    return "a descriptor of the run is left" if descriptors() - before else ""


def adapt(words: dict[str, Any], preloaded: Preloaded | None) -> str:
    """Become as a launcher wants this process, as far as that can be; gives what is in the way.

    words: its `pid`, its `facts`, or those of its thread, and `env`: the variables that all of its
    ranks have. What was imported is used only if nothing has changed that decided it (`record`).
    """
    from procession.agent.record import forget_searches
    from procession.system.facts import set_facts
    from procession.system.processes import directory_of

    assert preloaded is not None  # else it was not kept
    assert preloaded.layers is not None
    changed = preloaded.layers.reason_against(words["env"])
    if changed:
        return changed
    forget_searches()
    if not directory_of(words["pid"]):
        return "it may not look into the launcher"
    set_facts(words["facts"])
    return ""


def go_over(mark: str, pidfd: int, owner: Owner, sock: socket.socket, loop: EventLoop) -> str:
    """Change the owner; gives what is in the way. mark, pidfd: of the new one."""
    if not show_mark(mark):
        return "it has no room for another mark"
    try:
        owner.replace(pidfd, sock, loop)
    except OSError as e:
        return e.strerror or str(e)
    return ""
