"""A node process's lease on its driver: without news for that long, the driver counts as lost."""

from __future__ import annotations

import time

from procession.engines.link import Link
from procession.system.eventloop import EventLoop


def watch_lease(loop: EventLoop, link: Link, lease: float) -> None:
    """Lose a link on which nothing has come for the time of a lease, in seconds.

    If this process itself was stopped, what came meanwhile is read first.
    """
    turned = time.monotonic()

    def look() -> None:
        nonlocal turned
        now = time.monotonic()
        stalled, turned = now - turned > lease, now
        silent = now - link.heard_at
        if silent > lease and not stalled:
            # A driver that is too busy to send may still read why this node is lost.
            link.send("leaving", {"silent": silent})
            link.lose(f"nothing has come for {silent:.1f} s")
        else:
            loop.after("lease", lease / 10, look)

    look()
