"""Keeps what users have installed in an interpreter from running while it is an agent with ranks.

That is the collector, which calls finalizers, and functions that trace or profile. A finalizer may
wait for a lock that a thread of the launcher held when the agent was forked from it.
"""

from __future__ import annotations

import gc
import sys


class Quiet:
    """What is switched off until `end` gives it back: to code of users, or to a rank."""

    def __init__(self) -> None:
        self.switch_off()

    def switch_off(self) -> None:
        """Switch it off, at first and again."""
        self._collects = gc.isenabled()
        self._trace, self._profile = sys.gettrace(), sys.getprofile()
        gc.disable()
        sys.settrace(None)
        sys.setprofile(None)

    def end(self) -> None:
        """Give it back."""
        if self._collects:
            gc.enable()
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
