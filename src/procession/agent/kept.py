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

    from procession.agent import protocol
    from procession.agent.preload import Preloaded
    from procession.system.eventloop import EventLoop


def keep(
    words: dict[str, Any],
    fds: list[int],
    owner: Owner,
    sock: socket.socket,
    loop: EventLoop,
    preloaded: Preloaded | None,
    before: set[int],
) -> protocol.Message:
    """Go over to a keeper; gives the answer ("kept", what is in the way or "", facts).

    words: `mark` of the keeper. fds: its pidfd. before: the descriptors that were open when the
    run began.
    """
    from procession.system.facts import read_facts

    pidfd = fds[0]
    layers = preloaded.layers if preloaded is not None else None
    if preloaded is None or layers is None:
        return ("kept", "nobody observed its imports", {})
    if preloaded.fault or layers.fault:
        return ("kept", preloaded.fault or layers.fault, {})
    if tree.children():
        return ("kept", "a process of the run is left", {})
    if len(os.listdir("/proc/self/task")) > 1:
        return ("kept", "it has a thread", {})
    if descriptors() - before - {pidfd}:
        return ("kept", "a descriptor of the run is left", {})
    return _go_over(words["mark"], pidfd, owner, sock, loop, "kept") or (
        "kept",
        "",
        read_facts(),
    )


def take(
    words: dict[str, Any],
    fds: list[int],
    owner: Owner,
    sock: socket.socket,
    loop: EventLoop,
    preloaded: Preloaded | None,
) -> protocol.Message:
    """Go over to a launcher; gives the answer ("taken", what is in the way or "", facts).

    words: its `mark`, its `pid`, its `facts`, or those of its thread, and `env`: the variables
    that all of its ranks have. fds: its pidfd. What was imported is used only if nothing has
    changed that decided it (`layers`).
    """
    from procession.agent.layers import forget_searches
    from procession.system.facts import read_facts, sees, set_facts

    layers = preloaded.layers if preloaded is not None else None
    if layers is None:
        return ("taken", "nobody observed its imports", {})
    changed = layers.reason_against(words["env"])
    if changed:
        return ("taken", changed, {})
    forget_searches()
    if not sees(words["pid"]):
        return ("taken", "it may not look into the launcher", {})
    set_facts(words["facts"])
    return _go_over(words["mark"], fds[0], owner, sock, loop, "taken") or (
        "taken",
        "",
        read_facts(),
    )


def _go_over(
    mark: str, pidfd: int, owner: Owner, sock: socket.socket, loop: EventLoop, answer: str
) -> protocol.Message | None:
    """Change the owner; gives the answer if that cannot be done."""
    if not show_mark(mark):
        return (answer, "it has no room for another mark", {})
    try:
        owner.replace(pidfd, sock, loop)
    except OSError as e:
        return (answer, e.strerror or str(e), {})
    return None
