"""System calls: one family of them per file.

May import values. Files that a rank or the agent imports use the standard library only. Start
reading at `eventloop` and `tree`.

`plain` is the `signal` module below its enumerations. `signal` itself imports `enum` and much with
it, which is felt where an agent starts. And its `pthread_sigmask` makes a member of an enumeration
of every signal that was blocked, which is felt where it is called for each rank.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as plain
else:
    import _signal as plain

__all__ = ["plain"]
