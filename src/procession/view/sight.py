"""Looks at a group from time to time: at its ranks, their speed, and what they use."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from procession.view.pace import Pace
from procession.view.seen import Whole, see
from procession.view.usage import Sampler

Look = Mapping[str, Any]


class Sight:
    """Sees one group. look: gives what is known of it; see `group.looking.look_at` for the keys."""

    def __init__(self, look: Callable[[], Look]) -> None:
        self.look = look
        self._pace = Pace()
        self._sampler = Sampler()

    def see(self) -> Whole:
        """Look at the group now."""
        look = self.look()
        pids = {r["rank"]: r["pid"] for r in look["ranks"] if r["pid"] and r["exit"] is None}
        usage = self._sampler.usage(pids) if pids else None
        return see(look, time.time(), self._pace, usage)

    def recall(self, look: Look) -> Whole:
        """See the group as it was at an earlier look; what it used then is not known."""
        return see(look, time.time(), self._pace)

    def close(self) -> None:
        """Close what the samples need."""
        self._sampler.close()
